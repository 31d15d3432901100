internal import Wire

/// What a phone finds in a push (`Documentation/Protocols/Nextcloud.md` 6.4), as PHP writes it: within what RSA can
/// encrypt.
enum PushPlaintext {
  /// Bytes of the JSON that a subject is cut to fit into, before the two that stand for the mark of the cut.
  private static let budget = 200
  /// How many notifications one push takes back at most.
  private static let perDeletion = 10

  /// A notification. Its subject is cut where the JSON would be longer than 204 bytes; type and id, which
  /// apps can do without, go where they alone make it longer than `limit`.
  static func notification(_ notification: NextcloudNotification, limit: Int) -> [UInt8] {
    let whole = cut(notification, withObject: true)
    return whole.count <= limit ? whole : cut(notification, withObject: false)
  }

  /// One push for each ten, the last of one alone in the form for one.
  ///
  /// - Parameter together: false for apps that know only that form.
  static func deletions(_ nids: [Int64], together: Bool) -> [[UInt8]] {
    let step = together ? perDeletion : 1
    return stride(from: 0, to: nids.count, by: step).map { start in
      let chunk = nids[start..<min(start + step, nids.count)]
      if let nid = chunk.first, chunk.count == 1 {
        return JSON.object(["nid": .integer(nid), "delete": true]).php()
      }
      return JSON.object(["nids": .array(chunk.map(JSON.integer)), "delete-multiple": true]).php()
    }
  }

  /// All are gone.
  static var deletionOfAll: [UInt8] { JSON.object(["delete-all": true]).php() }

  private static func cut(_ notification: NextcloudNotification, withObject: Bool) -> [UInt8] {
    func encode(_ subject: String) -> [UInt8] {
      var object: JSON.Object = [
        "nid": .integer(notification.nid), "app": .string(notification.app), "subject": .string(subject),
      ]
      if withObject {
        object["type"] = .string(notification.type)
        object["id"] = .string(notification.id)
      }
      return JSON.object(object).php()
    }
    // If the rest alone is too long, nothing is left for the subject. (Nextcloud's own code would loop for ever.)
    let room = max(0, budget - encode("").count - 2)
    return encode(shortened(notification.subject, to: room))
  }

  /// As Nextcloud's `shortenMultibyteString` with its mark: so many characters at first, then five fewer
  /// until their JSON fits into so many bytes.
  private static func shortened(_ text: String, to room: Int) -> String {
    let all = text.unicodeScalars
    var left = all.prefix(room)
    while JSON.string(String(Substring(left))).php().count - 2 > room { left = left.dropLast(5) }
    return left.endIndex == all.endIndex ? text : String(Substring(left)) + "…"
  }
}
