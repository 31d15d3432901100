package import HTTP

/// What the host application wants a user's phones to know.
package enum NextcloudMessage: Sendable, Hashable {
  /// There is a notification.
  case notification(NextcloudNotification)
  /// These are gone, which are all of this app; nil where it is not told.
  case deletion(nids: [Int64], app: String?)
  /// All are gone.
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
    let isApp =
      (1...64).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
          true
        default: false
        }
      }
    guard isApp else { throw error("is not 1 to 64 letters, digits and _ - .") }
    return text
  }

  fileprivate func text(_ maximum: Int) throws(APIError) -> String {
    let text = try string()
    guard text.utf8.count <= maximum else { throw error("is longer than \(maximum) bytes") }
    return text
  }
}
