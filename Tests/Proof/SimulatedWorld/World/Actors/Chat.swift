import Foundation
import HTTP
import HTTPTypes
import Sealing
import ZulipServer

/// A chat application without push code of its own: it sends its messages to the built-in chat server, where
/// its phones register.
///
/// Unchecked: the world has one thread.
final class Chat: @unchecked Sendable {
  /// The number of users.
  static let users = 3
  /// The number of the first phone.
  static let firstPhone = 20_000
  static let backendToken = "backend-token-of-the-host-application"

  unowned let world: World
  private(set) var phones: [ChatPhone] = []
  private var random: WorldRandom
  /// When the chat server's last call to the bouncer that failed, or got no answer, ended.
  private var bouncerFailedAt = -1.0

  init(_ plans: [Plan.ChatPhonePlan], world: World, seed: UInt64) {
    self.world = world
    random = WorldRandom(seed: seed, "chat server")
    phones = plans.enumerated().map { number, plan in
      let phone = Phone(
        Chat.firstPhone + number, plan.kind, server: world.servers[0], user: plan.user, isLegacy: false,
        world: world)
      return ChatPhone(phone, chat: self, seed: seed)
    }
  }

  private func call(_ path: String, _ headers: HTTPFields, _ body: [UInt8]) async -> (
    node: Node, answer: Answer?
  ) {
    let node = world.balanced(&random)
    let began = world.time
    let name = String(path.split(separator: "/").last ?? "")
    let answer = world.standIn.answer(
      to: "chat/\(name)", await node.call(path, headers: headers, body: body))
    // The chat server's answer depends on the bouncer's: while the bouncer fails, an error is no violation.
    if bouncerFailedAt < began { world.answered("chat/\(name)", answer, by: node, since: began) }
    return (node, answer)
  }

  /// A phone's call, as a user.
  func call(
    _ endpoint: String, as user: Int, _ fields: [(String, String)]
  ) async -> (node: Node, answer: Answer?) {
    var headers: HTTPFields = [.contentType: "application/x-www-form-urlencoded"]
    let login = "\(Self.email(of: user)):\(Self.apiKey(of: user))"
    headers[.authorization] = "Basic " + Data(login.utf8).base64EncodedString()
    return await call("/api/v1/\(endpoint)", headers, Form.encode(fields.map { (name: $0.0, value: $0.1) }))
  }

  /// The chat server's own calls to the bouncer, which another node may take.
  func passOn(_ call: BouncerClient.Call) async -> Answer? {
    guard let identity = World.chatIdentity else { return nil }
    var headers: HTTPFields = [.contentType: call.contentType]
    headers[.authorization] =
      "Basic " + Data("\(identity.uuid):\(identity.key)".utf8).base64EncodedString()
    let (node, began) = (world.balanced(&random), world.time)
    let answer = await node.call("/api/v1/remotes/\(call.endpoint)", headers: headers, body: call.body)
    world.answered(call.endpoint, answer, by: node, since: began)
    if answer?.status ?? 503 >= 500 { bouncerFailedAt = world.time }
    return answer
  }

  /// Tells a user of a message.
  func notify(_ message: String, user: Int) async {
    let meant = phones.filter { $0.phone.user == user }.compactMap { phone in
      phone.confirmed.map { (phone: phone, token: $0) }
    }
    var headers: HTTPFields = [.contentType: "application/json"]
    headers[.authorization] = "Bearer \(Self.backendToken)"
    let label = Self.label(message, user)
    let body = #"{"zulip":{"type":"message","content":"\#(World.plaintext)\#(label)"}}"#
    let realm = World.chatIdentity?.realm ?? ""
    let began = world.time
    let (node, answer) = await call(
      "/backend/v1/realms/\(realm)/users/\(user + 1)/notifications", headers, Array(body.utf8))
    world.note(
      "chat: \(message) to user \(user): \(answer.map { "\($0.status) \($0.text.prefix { $0 != "\n" })" } ?? "no answer") (\(node.name))"
    )
    guard answer?.status == 200 else { return }
    for (phone, token) in meant where phone.confirmed == token && world.chatServerHas(token) {
      world.promised(label, to: token, of: phone.phone, at: began)
    }
  }

  static func label(_ message: String, _ user: Int) -> String { "\(message).chat.u\(user)" }
  static func email(of user: Int) -> String { "user\(user)@chat.example.org" }
  static func apiKey(of user: Int) -> String { String(repeating: "k", count: 31) + "\(user)" }
}
