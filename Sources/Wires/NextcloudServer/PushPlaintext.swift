import Foundation
package import HTTP

/// The plaintext of a push (`Documentation/Protocols/Nextcloud.md` 6.4), encoded as PHP does. With a proxy it
/// is limited by what RSA can encrypt.
enum PushPlaintext {
  /// Length in bytes to which the JSON is cut, before the two of the ellipsis are added.
  private static let budget = 200
  /// The length for Web Push: push services accept 4096 bytes, some of which the encryption takes.
  private static let budgetOfWebPush = 3000
  /// Maximum number of notifications that one push deletes.
  private static let perDeletion = 10

  /// A notification. The subject is cut if the JSON would be longer than 204 bytes. Type and id, which apps
  /// can do without, are left out if they alone make it longer than `limit`.
  static func notification(_ notification: NextcloudNotification, limit: Int) -> [UInt8] {
    let whole = cut(notification, to: budget, withObject: true)
    return whole.count <= limit ? whole : cut(notification, to: budget, withObject: false)
  }

  /// A notification for Web Push, at most about 3,300 bytes: type and id fit even if all of their characters
  /// are escaped.
  static func webPush(_ notification: NextcloudNotification) -> [UInt8] {
    cut(notification, to: budgetOfWebPush, withObject: true)
  }

  /// Deletions, up to ten in each push. A single deletion has a form of its own.
  ///
  /// - Parameter together: false for apps that know only the form of a single deletion.
  static func deletions(_ nids: [Int64], together: Bool) -> [[UInt8]] {
    chunks(of: nids, together: together).map(deletion)
  }

  /// Splits the numbers into those of each push.
  static func chunks(of nids: [Int64], together: Bool) -> [ArraySlice<Int64>] {
    let step = together ? perDeletion : 1
    return stride(from: 0, to: nids.count, by: step).map { nids[$0..<min($0 + step, nids.count)] }
  }

  /// The deletion of up to ten notifications.
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
    // If the rest alone is too long, no room is left for the subject. (Nextcloud's own code would loop
    // forever.)
    let room = max(0, budget - encode("").count - 2)
    return encode(shortened(notification.subject, to: room))
  }

  /// Like Nextcloud's `shortenMultibyteString` with an ellipsis: starts with `room` characters and removes
  /// five at a time until their JSON fits into `room` bytes.
  private static func shortened(_ text: String, to room: Int) -> String {
    let first = text.unicodeScalars.prefix(room)
    // The JSON length of each prefix; characters are encoded independently, so lengths add up.
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

/// A message from the host application for a user's phones.
package enum NextcloudMessage: Sendable, Hashable {
  case notification(NextcloudNotification)
  /// Deletes these notifications, all of this app; nil if the app is not given.
  case deletion(nids: [Int64], app: String?)
  /// Deletes all notifications.
  case deletionOfAll

  var isNotification: Bool { if case .notification = self { true } else { false } }

  /// The numbers of the deleted notifications; nil for all.
  var deleted: [Int64]? { if case .deletion(let nids, _) = self { nids } else { nil } }

  /// Maximum number of notifications deleted by one message.
  package static let maximumDeletions = 1000
  /// Largest number of a notification: the largest integer that every JSON reader has exactly (2^53 - 1).
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

/// Urgency and type of a push, for proxies (`Documentation/Protocols/Nextcloud.md` 6.2).
struct PushUrgency: Sendable, Hashable {
  /// `high` or `normal`.
  let priority: String
  /// `alert`, `voip` or `background`.
  let type: String

  /// The urgency of a deletion.
  static let deletion = PushUrgency(priority: "normal", type: "background")

  /// The urgency of a notification, by its app and type.
  static func notification(app: String, type: String) -> PushUrgency {
    if isTalk(app) { return PushUrgency(priority: "high", type: type == "call" ? "voip" : "alert") }
    return PushUrgency(priority: urgentApps.contains(app) ? "high" : "normal", type: "alert")
  }

  /// Whether the Talk app shows notifications of this app.
  static func isTalk(_ app: String) -> Bool { talkApps.contains(app) }

  private static let talkApps: Set = ["spreed", "talk", "admin_notification_talk"]
  private static let urgentApps: Set = ["twofactor_nextcloud_notification", "phonetrack"]
}
