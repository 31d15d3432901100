internal import HTTPTypes
internal import Hummingbird
internal import Registrations
internal import Wire

extension Backend {
  /// `POST .../notifications`: sends a notification to all devices of a user, by every way that the body
  /// has a part for.
  func sendNotification(_ request: Request, _ context: WireContext) async throws -> Response {
    let body = try await Self.body(of: request, members: ["zulip", "legacy", "nextcloud"])
    for part in ["legacy", "nextcloud"] where body[part].present != nil {
      throw APIError("\(body[part].path): \(part) is not served yet")
    }
    guard let payload = try body["zulip"].present?.members() else {
      throw APIError("\(body.path) wants zulip, with the payload of the notification")
    }
    let result = try await notify(try await user(context), payload)
    return Envelope.response(.ok, [.init("zulip", result)])
  }
}
