package import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import Providers
import Sealing

/// An app at a chat server, ours or a stock Zulip 12: the calls that it makes for its user so that
/// notifications reach its phone (`Documentation/Protocols/Zulip.md` 10).
package struct ChatClient {
  private let server: JSONService

  /// - Parameter server: the chat server's address.
  package init(server: String, email: String, apiKey: String, client: HTTPClient) {
    self.server = JSONService(
      url: "\(server)/api/v1", credentials: .basic(user: email, password: apiKey), client: client)
  }

  /// Adds a device for the app and returns its id.
  func addDevice() async throws -> Int64 {
    guard let id = try await server.call(.POST, "register_client_device")["device_id"]?.integer else {
      throw DemoError("the chat server gave the device no id")
    }
    return id
  }

  /// Removes the device, as a logout does.
  func removeDevice(_ id: Int64) async throws {
    try await server.call(.POST, "remove_client_device", .form([("device_id", "\(id)")]))
  }

  /// What a phone sends to its chat server.
  enum Part: CaseIterable { case key, token }

  /// Sends a phone's push key, its token, or both. The chat server answers before it has passed the token on
  /// to the bouncer: see ``wait(for:of:within:)``.
  ///
  /// - Parameters:
  ///   - bouncerKey: the bouncer's public key, in base64.
  ///   - sealed: the sealed registration to send; nil: one made now.
  func register(
    _ phone: VirtualPhone, as device: Int64, _ parts: [Part] = Part.allCases, bouncerKey: String,
    sealed: String? = nil
  ) async throws {
    var form = [("device_id", "\(device)")]
    if parts.contains(.key) { form += [("push_key_id", "\(phone.keyID)"), ("push_key", phone.key.base64)] }
    if parts.contains(.token) {
      form += [
        ("token_kind", phone.kind.rawValue), ("token_id", phone.tokenID.base64),
        ("bouncer_public_key", bouncerKey),
        ("encrypted_push_registration", try sealed ?? phone.sealedRegistration(to: bouncerKey)),
      ]
    }
    try await server.call(.POST, "mobile_push/register", .form(form))
  }

  /// Sends a token in clear, as legacy apps do (`Documentation/Protocols/Zulip.md` 10.8).
  func registerLegacy(_ kind: PushToken.Kind = .apns, token: String, appID: String) async throws {
    let endpoint = kind == .apns ? "apns_device_token" : "android_gcm_reg_id"
    try await server.call(.POST, "users/me/\(endpoint)", .form([("appid", appID), ("token", token)]))
  }

  /// Has the chat server send a test notification to a device.
  func sendTest(to device: Int64) async throws {
    try await server.call(
      .POST, "mobile_push/e2ee/test_notification", .form([("device_id", "\(device)")]))
  }

  /// Follows a device's events until its notifications go to this token.
  ///
  /// - Throws: an error with the code with which the bouncer refused the token, or one on timeout.
  func wait(for token: TokenID, of device: Int64, within limit: Duration = .seconds(90)) async throws {
    let end = ContinuousClock.now + limit
    let late = DemoError("the chat server did not say within \(limit) that the bouncer has the token")
    let queue = try await openQueue()
    var last = queue.last
    // The device's state when the queue was opened; events carry later changes.
    var changes = [queue.devices["\(device)"] ?? .null]
    do {
      while true {
        for change in changes {
          if change["op"] == "remove" { throw DemoError("device \(device) was removed") }
          if let code = change["push_registration_error_code"]?.string {
            throw DemoError("the bouncer refused the token: \(code)")
          }
          if change["push_token_id"]?.string == token.base64 { return try await close(queue.id) }
        }
        let left = end - .now
        guard left > .zero else { throw late }
        let query = String(
          decoding: Form.encode([("queue_id", queue.id), ("last_event_id", "\(last)")]), as: UTF8.self)
        let events = try await server.call(.GET, "events?\(query)", timeout: TimeAmount(left))["events"]
        guard let events = events?.elements, !events.isEmpty else {
          throw DemoError("events came without any")
        }
        last = events.compactMap { $0["id"]?.integer }.max() ?? last
        changes = events.filter { $0["type"] == "device" && $0["device_id"]?.integer == device }
      }
    } catch {
      try? await close(queue.id)
      if let silence = error as? JSONService.Silence, silence.isTimeout { throw late }
      throw error
    }
  }

  /// The user's devices by id, as clients see them.
  func devices() async throws -> JSON {
    let queue = try await openQueue()
    try await close(queue.id)
    return queue.devices
  }

  private func openQueue() async throws -> (id: String, last: Int64, devices: JSON) {
    let queue = try await server.call(.POST, "register", .form([("event_types", #"["device"]"#)]))
    guard let id = queue["queue_id"]?.string, let last = queue["last_event_id"]?.integer,
      let devices = queue["devices"]
    else { throw DemoError("the chat server tells nothing of devices: it is older than Zulip 12") }
    return (id, last, devices)
  }

  private func close(_ queue: String) async throws {
    try await server.call(.DELETE, "events", .form([("queue_id", queue)]))
  }
}

/// A phone whose app is signed in at a chat server and has a device there.
package actor SignedInPhone {
  /// The device's id.
  package nonisolated let device: Int64
  package private(set) var phone: VirtualPhone
  private let chat: ChatClient
  private let bouncerKey: String

  /// Adds the phone to the user's devices.
  ///
  /// - Parameter bouncerKey: the bouncer's public key that the app was shipped with.
  package init(_ phone: VirtualPhone, at chat: ChatClient, bouncerKey: String) async throws {
    self.phone = phone
    self.chat = chat
    self.bouncerKey = bouncerKey
    device = try await chat.addDevice()
  }

  /// Sends push key and token. Returns when the registration is confirmed.
  package func register() async throws {
    try await chat.register(phone, as: device, bouncerKey: bouncerKey)
    try await chat.wait(for: phone.tokenID, of: device)
  }

  /// Replaces the push key. The old one still opens notifications that are on their way.
  package func rotateKey() async throws {
    phone.rotateKey()
    try await chat.register(phone, as: device, [.key], bouncerKey: bouncerKey)
  }

  /// Replaces the token. Returns when the new one's registration is confirmed.
  ///
  /// - Parameter subscription: the new subscription, on a phone without Google's services.
  package func rotateToken(to subscription: PushSubscription? = nil) async throws {
    if let subscription { phone.move(to: subscription) } else { phone.rotateToken() }
    try await chat.register(phone, as: device, [.token], bouncerKey: bouncerKey)
    try await chat.wait(for: phone.tokenID, of: device)
  }

  /// Asks for a test notification.
  package func sendTest() async throws {
    try await chat.sendTest(to: device)
  }

  package func logOut() async throws {
    try await chat.removeDevice(device)
  }
}
