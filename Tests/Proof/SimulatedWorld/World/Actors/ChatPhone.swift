import Foundation
import HTTP
import Providers
import Sealing

/// A phone with the chat's app and one account. Like the published apps, it reads what the server has stored
/// for it, sends what differs, and polls until the server has confirmed or refused it.
///
/// Unchecked: the world has one thread.
final class ChatPhone: App, @unchecked Sendable {
  /// Owns the token, and changes it.
  let phone: Phone
  /// The token that the server has confirmed, as far as the phone knows.
  private(set) var confirmed: String?
  /// All push keys of the phone, by key id.
  private(set) var keys: [Int: PushKey] = [:]
  private unowned let chat: Chat
  private var random: WorldRandom
  private var keyID = 0
  /// The device's id at the server; nil before the first sign-in.
  private var device: Int?
  private var isRegistering = false
  /// Until this time, a call whose caller has given up may still take effect.
  private var doubtUntil = -1.0

  init(_ phone: Phone, chat: Chat, seed: UInt64) {
    (self.phone, self.chat) = (phone, chat)
    random = WorldRandom(seed: seed, phone.name)
    makeKey()
  }

  /// Makes another push key. The app keeps the former ones for notifications that are still on their way.
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
      // Polls instead of waiting for the event that announces the change.
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

  /// Compares the server's state of the device with the phone's and sends what differs. Returns true if no
  /// answer is pending.
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

  /// Returns the server's answer if it is a success, else nil.
  private func call(_ endpoint: String, _ fields: [(String, String)]) async -> JSON? {
    let (node, answer) = await chat.call(endpoint, as: phone.user, fields)
    chat.world.note(
      "\(phone.name): \(endpoint): \(answer.map { "\($0.status)" } ?? "no answer") (\(node.name))")
    if answer == nil, node.isAlive { doubtUntil = chat.world.time + 120 }
    return answer?.status == 200 ? answer?.json : nil
  }

  /// Decrypts a push; nil if the app has lost the key with its data.
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
