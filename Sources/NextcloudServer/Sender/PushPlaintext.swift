internal import Foundation
package import HTTP

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

/// What the host application wants a user's phones to know.
package enum NextcloudMessage: Sendable, Hashable {
  case notification(NextcloudNotification)
  /// These are gone, which are all of this app; nil where it is not told.
  case deletion(nids: [Int64], app: String?)
  case deletionOfAll

  /// Those that are gone; nil stands for all.
  var deleted: [Int64]? { if case .deletion(let nids, _) = self { nids } else { nil } }

  /// How many notifications are taken back at a time.
  package static let maximumDeletions = 1000
  /// The largest number of a notification: what every reader of JSON has exactly (2^53 - 1).
  static let maximumNumber: Int64 = 9_007_199_254_740_991

  /// Reads the part `nextcloud` of a call of the backend API.
  package init(_ field: Field) throws(APIError) {
    if let nids = field["delete_nids"].present {
      try field.forbidMembers(except: ["delete_nids", "app"])
      let elements = try nids.elements()
      guard (1...Self.maximumDeletions).contains(elements.count) else {
        throw nids.error("is not a list of 1 to \(Self.maximumDeletions) numbers")
      }
      var numbers: [Int64] = []
      for element in elements { numbers.append(try element.nid()) }
      self = .deletion(nids: numbers, app: try field["app"].present?.app())
    } else if let all = field["delete_all"].present {
      try field.forbidMembers(except: ["delete_all"])
      guard try all.bool() else { throw all.error("is not true") }
      self = .deletionOfAll
    } else {
      try field.forbidMembers(except: ["nid", "app", "subject", "message", "type", "id"])
      self = .notification(
        NextcloudNotification(
          nid: try field["nid"].nid(), app: try field["app"].app(),
          subject: try field["subject"].text(65_536),
          message: try field["message"].present?.text(65_536) ?? "",
          type: try field["type"].present?.text(256) ?? "", id: try field["id"].present?.text(256) ?? ""))
    }
  }
}

extension Field {
  fileprivate func nid() throws(APIError) -> Int64 {
    let number = try integer()
    guard (0...NextcloudMessage.maximumNumber).contains(number) else {
      throw error("is not a whole number from 0 to \(NextcloudMessage.maximumNumber)")
    }
    return number
  }

  fileprivate func app() throws(APIError) -> String {
    let text = try string()
    guard text.isName(1...64, with: "_-.") else { throw error("is not 1 to 64 letters, digits and _ - .") }
    return text
  }

  fileprivate func text(_ maximum: Int) throws(APIError) -> String {
    let text = try string()
    guard text.utf8.count <= maximum else { throw error("is longer than \(maximum) bytes") }
    return text
  }
}

/// How a push is to be treated on its way (`Documentation/Protocols/Nextcloud.md` 6.2).
struct PushUrgency: Sendable, Hashable {
  /// `high` or `normal`.
  let priority: String
  /// `alert`, `voip` or `background`.
  let type: String

  /// Of a push that takes something back.
  static let deletion = PushUrgency(priority: "normal", type: "background")

  /// Of a notification of an app about some type of thing.
  static func notification(app: String, type: String) -> PushUrgency {
    if isTalk(app) { return PushUrgency(priority: "high", type: type == "call" ? "voip" : "alert") }
    return PushUrgency(priority: urgentApps.contains(app) ? "high" : "normal", type: "alert")
  }

  /// Whether an app is one of those that the Talk app shows.
  static func isTalk(_ app: String) -> Bool { talkApps.contains(app) }

  private static let talkApps: Set = ["spreed", "talk", "admin_notification_talk"]
  private static let urgentApps: Set = ["twofactor_nextcloud_notification", "phonetrack"]
}
