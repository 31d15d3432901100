internal import HTTP

/// What a phone finds in a push (`Documentation/Protocols/Nextcloud.md` 6.4), as PHP writes it: by way of a proxy within
/// what RSA can encrypt.
enum PushPlaintext {
  /// Bytes of the JSON that a subject is cut to fit into, before the two that stand for the mark of the cut.
  private static let budget = 200
  /// The same without a proxy: push services take 4096 bytes, and some of them are the encryption's.
  private static let budgetOfWebPush = 3000
  /// How many notifications one push takes back at most.
  private static let perDeletion = 10

  /// A notification. Its subject is cut where the JSON would be longer than 204 bytes; type and id, which
  /// apps can do without, go where they alone make it longer than `limit`.
  static func notification(_ notification: NextcloudNotification, limit: Int) -> [UInt8] {
    let whole = cut(notification, to: budget, withObject: true)
    return whole.count <= limit ? whole : cut(notification, to: budget, withObject: false)
  }

  /// A notification without a proxy, at most some 3,300 bytes: type and id have room even where all of them is escaped.
  static func webPush(_ notification: NextcloudNotification) -> [UInt8] {
    cut(notification, to: budgetOfWebPush, withObject: true)
  }

  /// One push for each ten, the last of one alone in the form for one.
  ///
  /// - Parameter together: false for apps that know only that form.
  static func deletions(_ nids: [Int64], together: Bool) -> [[UInt8]] {
    chunks(of: nids, together: together).map(deletion)
  }

  /// What each of those takes back.
  static func chunks(of nids: [Int64], together: Bool) -> [ArraySlice<Int64>] {
    let step = together ? perDeletion : 1
    return stride(from: 0, to: nids.count, by: step).map { nids[$0..<min($0 + step, nids.count)] }
  }

  /// These are gone, up to ten.
  static func deletion(_ nids: ArraySlice<Int64>) -> [UInt8] {
    if let nid = nids.first, nids.count == 1 {
      return JSON.object(["nid": .integer(nid), "delete": true]).php()
    }
    return JSON.object(["nids": .array(nids.map(JSON.integer)), "delete-multiple": true]).php()
  }

  /// All are gone.
  static var deletionOfAll: [UInt8] { JSON.object(["delete-all": true]).php() }

  private static func cut(
    _ notification: NextcloudNotification, to budget: Int, withObject: Bool
  ) -> [UInt8] {
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
    let first = text.unicodeScalars.prefix(room)
    // How long so many of them are in JSON, which is as long as each by itself.
    var lengths = [0]
    for scalar in first {
      lengths.append(lengths[lengths.count - 1] + JSON.string(String(scalar)).php().count - 2)
    }
    var count = first.count
    while lengths[count] > room { count = max(0, count - 5) }
    let left = first.prefix(count)
    return left.endIndex == text.unicodeScalars.endIndex ? text : String(Substring(left)) + "…"
  }
}
