public import Foundation

/// An app's subscription at the gateway. The app keeps it beside its ``WebPushKeys``.
public struct Subscription: Codable, Sendable, Equatable, CustomStringConvertible {
  /// Names the subscription in calls and in pushes.
  public let id: String
  /// Where the chat server sends messages.
  public let endpoint: String
  /// Lets the app renew and end it, and fetch messages.
  let secret: String

  /// Without the secret.
  public var description: String { "Subscription(\(id))" }
}

/// Who gets the pushes.
public struct Registration: Encodable, Sendable {
  private enum CodingKeys: String, CodingKey {
    case kind = "token_kind"
    case token
    case appID = "ios_app_id"
    case sealed = "encrypted_push_registration"
    case publicKey = "bouncer_public_key"
  }

  /// `apns` or `fcm`; nil if it is sealed, as the next two.
  public let kind: String?
  /// The provider's token.
  public let token: String?
  /// The bundle id of an iPhone's app.
  public let appID: String?
  private let sealed: String?
  private let publicKey: String?

  private init(
    kind: String? = nil, token: String? = nil, appID: String? = nil, sealed: String? = nil,
    publicKey: String? = nil
  ) {
    (self.kind, self.token, self.appID) = (kind, token, appID)
    (self.sealed, self.publicKey) = (sealed, publicKey)
  }

  /// An iPhone's app.
  ///
  /// - Parameters:
  ///   - token: the device token in hex, 64 digits or more.
  ///   - appID: the app's bundle id; not the extension's.
  public static func apns(token: String, appID: String) -> Registration {
    Registration(kind: "apns", token: token, appID: appID)
  }

  /// An app that gets its pushes from Google.
  public static func fcm(token: String) -> Registration { Registration(kind: "fcm", token: token) }

  /// One that was sealed to a bouncer's key, so that nobody on the way sees the token.
  public static func sealed(_ registration: String, to publicKey: String) -> Registration {
    Registration(sealed: registration, publicKey: publicKey)
  }
}

/// The Web Push gateway of push-bouncer, as apps call it.
public struct Gateway: Sendable {
  private let base: String
  private let transport: Transport

  /// - Parameter address: such as `https://push.example.org`.
  public init(_ address: String, transport: @escaping Transport) {
    base = String(address.reversed().drop { $0 == "/" }.reversed()) + "/webpush/v1"
    self.transport = transport
  }

  // MARK: Subscribing

  /// What an app calls at each start, and whenever its token has changed: renews its subscription, or subscribes if it has
  /// none, or one that the gateway does not know. Then the app stores the result and tells its chat server the endpoint and the
  /// keys, even if they seem to be the same: an answer may have been lost.
  ///
  /// If a first answer is lost, the app has nothing to renew and subscribes again. What it does not know of was told to no chat
  /// server, so nobody sends to it, and the gateway forgets it.
  ///
  /// - Parameter sender: the chat server's VAPID key, 65 bytes in base64url: nobody else can send. Nil: anybody can who knows
  ///   the endpoint.
  public func enrol(
    _ subscription: Subscription?, as registration: Registration, sender: String?
  ) async throws -> Subscription {
    guard let subscription else { return try await subscribe(registration, sender: sender) }
    do {
      return try await renew(subscription, as: registration, sender: sender)
    } catch PushError.refused(401, _, _) {
      return try await subscribe(registration, sender: sender)
    }
  }

  /// Subscribes. An app that has a subscription renews it instead: with two it would ring twice.
  public func subscribe(_ registration: Registration, sender: String?) async throws -> Subscription {
    let answer = try await call("POST", "subscriptions", body: Enrolment(registration, sender: sender))
    return try Self.parse(Subscription.self, answer)
  }

  /// Renews a subscription with the present token. It keeps its endpoint; if it had ended, it is made again.
  ///
  /// The sender's key is named each time: a subscription that is made again has no other.
  public func renew(
    _ subscription: Subscription, as registration: Registration, sender: String?
  ) async throws -> Subscription {
    let answer = try await call(
      "PUT", "subscriptions/\(subscription.id)", of: subscription,
      body: Enrolment(registration, sender: sender))
    let names = try Self.parse(Names.self, answer)
    guard names.id == subscription.id else {
      throw PushError.malformed("the gateway renews another subscription")
    }
    return Subscription(id: names.id, endpoint: names.endpoint, secret: subscription.secret)
  }

  /// Ends a subscription and what waits for it, when the user logs out. An app forgets the subscription and its keys once this
  /// has worked, and repeats it if not.
  public func unsubscribe(_ subscription: Subscription) async throws {
    _ = try await call("DELETE", "subscriptions/\(subscription.id)", of: subscription)
  }

  // MARK: Messages

  /// The text of a push, fetched if it did not fit; nil if the chat server has sent none.
  public func open(_ push: ReceivedPush, of subscription: Subscription, with keys: WebPushKeys) async throws
    -> Data?
  {
    guard push.subscription == subscription.id else { throw PushError.notSubscribed }
    switch push.content {
    case .nothing: return nil
    case .message(let message): return try keys.open(message)
    case .waiting(let id): return try keys.open(try await fetch(id, for: subscription))
    }
  }

  /// Fetches what waits for the app, oldest first. An app calls it at its start, and on Android in `onDeletedMessages`: there
  /// are messages whose push was lost, or could not be read in time.
  ///
  /// - Parameter show: is called with each text, nil if it cannot be decrypted, before the next one is fetched: a message waits
  ///   no longer once it was fetched.
  public func collect(
    for subscription: Subscription, with keys: WebPushKeys, show: (Data?) async throws -> Void
  ) async throws {
    for id in try await waiting(for: subscription) {
      do {
        let message = try await fetch(id, for: subscription)
        try await show(try? keys.open(message))
      } catch PushError.refused(404, _, _) {
        // Its time is over, or the extension has fetched it meanwhile.
        continue
      }
    }
  }

  /// The ids of the messages that wait, oldest first.
  public func waiting(for subscription: Subscription) async throws -> [String] {
    let answer = try await call("GET", "subscriptions/\(subscription.id)/messages", of: subscription)
    return try Self.parse(List.self, answer).messages.map(\.id).filter(Base64URL.isID)
  }

  /// A message that did not fit into its push. It can be fetched again for five minutes.
  public func fetch(_ id: String, for subscription: Subscription) async throws -> EncryptedMessage {
    let answer = try await call("GET", "messages/\(id)", of: subscription)
    return try EncryptedMessage(
      answer.body, encoding: answer.headers["content-encoding"], sender: answer.bytes("dh", in: "crypto-key"),
      salt: answer.bytes("salt", in: "encryption"))
  }

  // MARK: Calls

  private struct Enrolment: Encodable {
    private enum CodingKeys: String, CodingKey { case sender = "application_server_key" }

    let registration: Registration
    let sender: String?

    init(_ registration: Registration, sender: String?) {
      (self.registration, self.sender) = (registration, sender)
    }

    func encode(to encoder: any Encoder) throws {
      try registration.encode(to: encoder)
      var container = encoder.container(keyedBy: CodingKeys.self)
      // Also null: anybody may send.
      try container.encode(sender, forKey: .sender)
    }
  }

  private struct Names: Decodable {
    let id: String
    let endpoint: String
  }

  private struct List: Decodable {
    struct Message: Decodable { let id: String }
    let messages: [Message]
  }

  private struct Refusal: Decodable { let message: String }

  private func call(
    _ method: String, _ path: String, of subscription: Subscription? = nil, body: Enrolment? = nil
  ) async throws -> GatewayAnswer {
    var headers: [String: String] = [:]
    headers["Authorization"] = subscription.map { "Bearer \($0.secret)" }
    if body != nil { headers["Content-Type"] = "application/json" }
    let answer = try await transport(
      GatewayCall(
        method: method, url: "\(base)/\(path)", headers: headers,
        body: try body.map { try JSONEncoder().encode($0) }))
    guard (200..<300).contains(answer.status) else {
      throw PushError.refused(
        status: answer.status, message: (try? Self.parse(Refusal.self, answer))?.message ?? "",
        retryAfter: answer.headers["retry-after"].flatMap { Int($0) })
    }
    return answer
  }

  private static func parse<Content: Decodable>(_ type: Content.Type, _ answer: GatewayAnswer) throws
    -> Content
  {
    do { return try JSONDecoder().decode(type, from: answer.body) } catch {
      throw PushError.malformed("the gateway's answer")
    }
  }
}
