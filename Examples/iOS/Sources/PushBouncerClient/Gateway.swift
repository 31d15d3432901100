public import Foundation

/// An app's subscription, which it keeps beside its ``WebPushKeys``.
public struct Subscription: Codable, Sendable, Equatable, CustomStringConvertible {
  /// Names it in pushes.
  public let id: String
  /// Where the chat server sends messages.
  public let endpoint: String
  let secret: String

  /// Without what is secret.
  public var description: String { "Subscription(\(id))" }
}

/// Who gets the pushes.
public struct Registration: Sendable {
  /// As they are sent. An app may add others, such as `silent_urgency`.
  public var members: [String: String]

  /// From members, such as those of a sealed one.
  public init(members: [String: String]) { self.members = members }

  /// An iPhone's app: its device token in hex, and its bundle id, not the extension's.
  public static func apns(token: String, appID: String) -> Self {
    Self(members: ["token_kind": "apns", "token": token, "ios_app_id": appID])
  }

  /// An app that gets its pushes from Google.
  public static func fcm(token: String) -> Self { Self(members: ["token_kind": "fcm", "token": token]) }
}

/// The Web Push gateway of push-bouncer, as apps call it.
public struct Gateway: Sendable {
  private let base: String
  private let transport: Transport

  /// - Parameter address: such as `https://push.example.org`.
  public init(_ address: String, transport: @escaping Transport) {
    base = (address.hasSuffix("/") ? String(address.dropLast()) : address) + "/webpush/v1"
    self.transport = transport
  }

  /// Renews a subscription, or subscribes if there is none that the gateway knows. An app calls it at each start, and when its token
  /// has changed; stores the result; and then tells its chat server the endpoint and the keys, also if they are the same: the
  /// subscription may have ended, and an answer may have been lost.
  ///
  /// If a first answer is lost, the next call subscribes again. The app rings once all the same: servers are told only what it has
  /// stored, and the gateway forgets what nobody sends to.
  ///
  /// - Parameter sender: the chat server's VAPID key, 65 bytes in base64url: nobody else can send. Nil: who knows the endpoint can.
  ///   It is named each time, as what has ended is made again with it.
  public func enrol(
    _ subscription: Subscription?, as registration: Registration, sender: String?
  ) async throws -> Subscription {
    var members = registration.members as [String: String?]
    members.updateValue(sender, forKey: "application_server_key")
    let body = try JSONEncoder().encode(members)
    if let subscription {
      do {
        let names: Names = try await call("PUT", "subscriptions/\(subscription.id)", of: subscription, body)
        guard names.id == subscription.id else { throw PushError.malformed("the gateway's answer") }
        return Subscription(id: names.id, endpoint: names.endpoint, secret: subscription.secret)
      } catch PushError.refused(401, _) {}
    }
    return try await call("POST", "subscriptions", body)
  }

  /// Ends a subscription and what waits for it, when the user logs out. An app forgets it and the keys once this has worked.
  public func unsubscribe(_ subscription: Subscription) async throws {
    _ = try await answer("DELETE", "subscriptions/\(subscription.id)", of: subscription)
  }

  /// The text of a push, fetched if it did not fit; nil if the chat server has sent none.
  public func open(_ push: ReceivedPush, of subscription: Subscription, with keys: WebPushKeys) async throws
    -> Data?
  {
    guard push.subscription == subscription.id else { throw PushError.notSubscribed }
    let fetched = if let id = push.waiting { try await fetch(id, for: subscription) } else { push.message }
    return try fetched.map { try keys.open($0) }
  }

  /// Fetches what waits, oldest first. An app calls it at its start, and on Android in `onDeletedMessages`: there are messages
  /// whose push was lost, or could not be fetched in time.
  ///
  /// - Parameter show: called with each text, nil if it cannot be decrypted, before the next one is fetched: what was fetched
  ///   waits no longer.
  public func collect(
    for subscription: Subscription, with keys: WebPushKeys, show: (Data?) async throws -> Void
  ) async throws {
    let list: List = try await call("GET", "subscriptions/\(subscription.id)/messages", of: subscription)
    for id in list.messages.map(\.id) where Base64URL.isID(id) {
      var text: Data?
      do {
        text = try await keys.open(fetch(id, for: subscription))
      } catch PushError.refused(404, _) {
        // Its time is over, or the extension was faster.
        continue
      } catch PushError.unreadable, PushError.malformed {}
      try await show(text)
    }
  }

  /// Fetches a message that did not fit into its push. It can be fetched again for five minutes.
  private func fetch(_ id: String, for subscription: Subscription) async throws -> EncryptedMessage {
    let answer = try await answer("GET", "messages/\(id)", of: subscription)
    return try EncryptedMessage(
      answer.body, encoding: answer.headers["content-encoding"], sender: answer.bytes("dh", in: "crypto-key"),
      salt: answer.bytes("salt", in: "encryption"))
  }

  private struct Names: Decodable { let id, endpoint: String }
  private struct List: Decodable { let messages: [Message] }
  private struct Message: Decodable { let id: String }

  private func call<Content: Decodable>(
    _ method: String, _ path: String, of subscription: Subscription? = nil, _ body: Data? = nil
  ) async throws -> Content {
    let answer = try await answer(method, path, of: subscription, body)
    do { return try JSONDecoder().decode(Content.self, from: answer.body) } catch {
      throw PushError.malformed("the gateway's answer")
    }
  }

  private func answer(
    _ method: String, _ path: String, of subscription: Subscription? = nil, _ body: Data? = nil
  ) async throws -> GatewayAnswer {
    var headers: [String: String] = [:]
    headers["Authorization"] = subscription.map { "Bearer \($0.secret)" }
    headers["Content-Type"] = body.map { _ in "application/json" }
    let answer = try await transport(
      GatewayCall(method: method, url: "\(base)/\(path)", headers: headers, body: body))
    guard 200..<300 ~= answer.status else {
      let members = try? JSONDecoder().decode([String: String].self, from: answer.body)
      throw PushError.refused(status: answer.status, message: members?["message"] ?? "")
    }
    return answer
  }
}
