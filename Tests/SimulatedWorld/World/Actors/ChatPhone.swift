import Foundation
import HTTP
import Providers
import Sealing

/// A phone with an app of the chat's and one account. As the published apps do, it looks at what the server knows of it,
/// tells what has changed, and looks again until the server has said yes or no.
///
/// Unchecked: the world has one thread.
final class ChatPhone: App, @unchecked Sendable {
  /// The token's life is that of any phone.
  let phone: Phone
  /// The token that the server has said yes to, as the phone knows it.
  private(set) var confirmed: String?
  /// All that it can open notifications with, by the id that the server is told.
  private(set) var keys: [Int: PushKey] = [:]
  private unowned let chat: Chat
  private var random: WorldRandom
  private var keyID = 0
  /// What the server calls it; nil: it has not signed in yet.
  private var device: Int?
  private var isRegistering = false
  /// Until then a call that nobody waits for may still be carried out.
  private var doubtUntil = -1.0

  init(_ phone: Phone, chat: Chat, seed: UInt64) {
    (self.phone, self.chat) = (phone, chat)
    random = WorldRandom(seed: seed, phone.name)
    makeKey()
  }

  /// The app makes another key. It keeps the former ones, for what is under way.
  func makeKey() {
    confirmed = nil
    keyID += 1
    keys[keyID] = PushKey(bytes: [0x31] + (0..<32).map { _ in UInt8(truncatingIfNeeded: random.next()) })
  }

  func installAnew() {
    forget()
    (phone.isInstalled, phone.isLoggedIn) = (true, true)
  }

  func forget() {
    phone.forgottenAt = chat.world.time
    (device, keys) = (nil, [:])
    makeKey()
  }

  func open() async {
    guard phone.isWaiting, !isRegistering else { return }
    isRegistering = true
    defer { isRegistering = false }
    for _ in 0..<100 {
      guard phone.isWaiting, !chat.world.isOver else { return }
      if await isSettled() { return }
      // In place of the event that tells of what has changed.
      try? await Task.sleep(for: .seconds(20))
    }
  }

  func logOut() async {
    guard phone.isWaiting else { return }
    let device = device
    forget()
    phone.isLoggedIn = false
    if let device { _ = await call("remove_client_device", [("device_id", "\(device)")]) }
  }

  /// Looks at what the server has, and tells it what it has not; whether there is nothing to wait for.
  private func isSettled() async -> Bool {
    confirmed = nil
    let (token, wanted) = (phone.token, keyID)
    guard let state = await call("register", [("event_types", #"["device"]"#)]) else { return false }
    guard let device, let known = state["devices"]?["\(device)"] else {
      device = nil
      guard let id = await call("register_client_device", [])?["device_id"]?.integer else { return false }
      device = Int(id)
      return false
    }
    let id = TokenID(token: token).base64
    let isKeyKnown = known["push_key_id"]?.integer == Int64(wanted)
    let pending = known["pending_push_token_id"]?.string
    let isRefused = known["push_registration_error_code"]?.string != nil
    if isKeyKnown, pending == nil, known["push_token_id"]?.string == id {
      guard (token, wanted) == (phone.token, keyID), chat.world.time > doubtUntil else { return false }
      confirmed = token
      return true
    }
    // The bouncer has not answered yet.
    guard pending == nil || isRefused else { return false }
    guard let key = keys[wanted] else { return false }
    _ = await call(
      "mobile_push/register",
      [
        ("device_id", "\(device)"), ("push_key", key.base64), ("push_key_id", "\(wanted)"),
        ("token_kind", phone.kind == .apns ? "apns" : "fcm"), ("token_id", id),
        ("bouncer_public_key", Node.keyPair.publicKeyBase64),
        ("encrypted_push_registration", phone.sealedRegistration()),
      ])
    return false
  }

  /// What the server answers, if it is a success.
  private func call(_ endpoint: String, _ fields: [(String, String)]) async -> JSON? {
    let (node, answer) = await chat.call(endpoint, as: phone.user, fields)
    chat.world.note(
      "\(phone.name): \(endpoint): \(answer.map { "\($0.status)" } ?? "no answer") (\(node.name))")
    if answer == nil, node.isAlive { doubtUntil = chat.world.time + 120 }
    return answer?.status == 200 ? answer?.json : nil
  }

  /// Opens what has arrived; nil where the key is gone with what the app knew before.
  func opened(_ push: ReceivedPush) -> String? {
    guard let id = push.keyID, let key = keys[id] else { return nil }
    guard let sealed = push.sealed.flatMap({ Data(base64Encoded: $0) }), let text = key.open([UInt8](sealed))
    else {
      chat.world.violate("readable to whom it is for", "\(phone.name) cannot open what names its key \(id)")
      return nil
    }
    return String(decoding: text, as: UTF8.self).between(World.plaintext, "\"")
  }
}
