import Crypto
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import NextcloudProxy
import Registrations
import SQL

extension NextcloudServerRoutes {
  /// Maximum number of notifications in a list, which has the newest ones.
  static let maximumListed = 100
  /// Maximum number of ids in one request.
  static let maximumAsked = 200

  /// `POST v3/test/self`: sends a notification to the user's own phones and returns the results.
  func testSelf(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let time = Int64(sender.now().timeIntervalSince1970)
    let isTalk = kind(of: call) == .talk
    let result = try await sender.notify(
      login.user,
      .notification(
        .init(
          nid: time, app: isTalk ? "admin_notification_talk" : "admin_notifications",
          subject: "Testing push notifications", type: "admin_notifications", id: String(time, radix: 16))))
    return OCSAnswer(.ok, data: ["message": .string(result.text), "nid": .integer(time)])
  }

  /// `GET v2/notifications`: the user's notifications, the newest first; 304 if the caller has the same list
  /// already. With `app`, `objectType` or `objectId` those of them.
  func listNotifications(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let entries = try await sender.notifications.newest(
      Self.maximumListed, user: login.user.id, app: call["app"], type: call["objectType"],
      id: call["objectId"])
    let tag = Self.tag(of: entries)
    let isKnown = Self.tags(call.headers[.ifNoneMatch] ?? "").contains { $0.elementsEqual(tag.utf8) }
    var answer = OCSAnswer(
      isKnown ? .notModified : .ok, data: .array(entries.map { Self.json($0, of: login.user) }))
    answer.headers = [.eTag: tag, .userStatus: "online"]
    return answer
  }

  /// `GET v2/notifications/{nid}`: the whole of a notification whose push was too small for it.
  func getNotification(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    guard let nid = Self.nid(call),
      let entry = try await sender.notifications.find(nid, user: login.user.id)
    else { throw OCSAnswer(.notFound, data: nil) }
    return OCSAnswer(.ok, data: Self.json(entry, of: login.user))
  }

  /// `POST v2/notifications/exists`: which of these `ids` still exist.
  func existingNotifications(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let ids = try call.list("ids")
    guard ids.count <= Self.maximumAsked else { throw OCSAnswer(.badRequest) }
    var seen: Set<Int64> = []
    let nids = ids.compactMap { Int64($0) }.filter { seen.insert($0).inserted }
    let apps = try await sender.notifications.apps(of: nids, user: login.user.id)
    return OCSAnswer(.ok, data: .array(nids.filter { apps[$0] != nil }.map(JSON.integer)))
  }

  /// `DELETE v2/notifications/{nid}`: deletes a notification that the user has seen, also from the other
  /// phones.
  func deleteNotification(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    guard let nid = Self.nid(call), nid > 0 else { throw OCSAnswer(.notFound, data: nil) }
    if let app = try await sender.notifications.apps(of: [nid], user: login.user.id)[nid] {
      _ = try await sender.notify(
        login.user, .deletion(nids: [nid], app: app), except: login.appPassword)
    }
    return OCSAnswer(.ok)
  }

  /// `DELETE v2/notifications`: deletes all of the user's notifications.
  func deleteNotifications(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    if try await sender.notifications.hasAny(user: login.user.id) {
      _ = try await sender.notify(login.user, .deletionOfAll, except: login.appPassword)
    }
    return OCSAnswer(.ok)
  }

  private static func nid(_ call: OCSRequest) -> Int64? {
    call.context.parameters.get("nid").flatMap { Int64($0) }
  }

  /// A notification as Nextcloud's notifications app represents it. Notifications here are only text, so the
  /// fields for links and pictures are empty.
  private static func json(_ entry: NextcloudNotifications.Entry, of user: User) -> JSON {
    let notification = entry.notification
    return [
      "notification_id": .integer(notification.nid), "app": .string(notification.app),
      "user": .string(user.username),
      "datetime": .string("\(entry.sentAt.ISO8601Format().dropLast())+00:00"),
      "object_type": .string(notification.type), "object_id": .string(notification.id),
      "subject": .string(notification.subject), "message": .string(notification.message), "link": "",
      "subjectRich": "", "subjectRichParameters": [], "messageRich": "", "messageRichParameters": [],
      "icon": "", "shouldNotify": true, "actions": [],
    ]
  }

  /// An entity tag, which changes when any of these entries changes.
  private static func tag(of entries: [NextcloudNotifications.Entry]) -> String {
    let text = entries.map { "\($0.notification.nid) \($0.sentAt.milliseconds)" }.joined(separator: ",")
    let hash = SHA256.hash(data: Data(text.utf8)).prefix(16).map { byte in
      (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }
    return "\"\(hash.joined())\""
  }

  /// The tags of an `If-None-Match` header; weak ones match too, because a proxy that compresses makes tags
  /// weak.
  private static func tags(_ header: String) -> [Substring.UTF8View.SubSequence] {
    header.utf8.split(separator: UInt8(ascii: ",")).map { tag in
      let tag = tag.drop { $0 == UInt8(ascii: " ") }
      return (tag.starts(with: "W/".utf8) ? tag.dropFirst(2) : tag).prefix { $0 != UInt8(ascii: " ") }
    }
  }
}

extension HTTPField.Name {
  /// `X-Nextcloud-User-Status`: whether the user wants to be disturbed, which is unknown here.
  static let userStatus = HTTPField.Name("X-Nextcloud-User-Status")!  // a valid token
}
