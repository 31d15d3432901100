internal import Foundation
internal import HTTPTypes
internal import Registrations
internal import Wire

extension NextcloudServer {
  /// `POST v3/test/self`: a notification to the user's own phones, and what became of it
  /// (`spec/nextcloud.md` 3.7).
  func testSelf(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let time = Int64(dependencies.now().timeIntervalSince1970)
    let isTalk = (dependencies.brand(call.userAgent) ?? .init(userAgent: call.userAgent)) == .talk
    let result = try await dependencies.sender.notify(
      login.user,
      .notification(
        .init(
          nid: time, app: isTalk ? "admin_notification_talk" : "admin_notifications",
          subject: "Testing push notifications", type: "admin_notifications", id: String(time, radix: 16))))
    return OCSAnswer(.ok, data: ["message": .string(result.text), "nid": .integer(time)])
  }

  /// `GET v2/notifications` and below: they are the host application's, and not kept here.
  func noNotifications(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    throw OCSAnswer(.notFound)
  }
}
