import Basics
package import Delivery
package import Foundation
package import HTTP
import HTTPClient
import HTTPTypes
package import Logging
import NIOCore
import Platform
import Providers
package import Registrations
package import SQL
package import Sealing

/// A push service for Web Push senders (RFC 8030) that reaches the operator's apps through APNs and FCM.
package final class WebPushGateway: Sendable {
  /// Logged for apps that no credential serves.
  private static let unknownApps = RateLimitedLog.Limit("apps unknown to the Web Push gateway", perMinute: 10)

  let settings: GatewaySettings
  let http: HTTPSettings
  let subscriptions: GatewaySubscriptions
  let messages: GatewayMessages
  let secrets: GatewaySecrets
  private let publicURL: @Sendable () -> String
  private let keyring: @Sendable () -> BouncerKeyring
  private let bouncerKeys: BouncerKeys
  private let deliverer: Deliverer
  private let lossDetector: StoreLossDetector
  private let newSubscriptions: Rate<ClientAddress>
  private let senders = VerifiedSenders()
  private let work: FairSemaphore<Owner>
  private let room: RegistrationRoom
  private let rateLimitedLog = RateLimitedLog()
  let now: @Sendable () -> Date
  private let logger: Logger

  /// - Parameters:
  ///   - publicURL: the service's public address, which endpoints begin with.
  ///   - keyring: the bouncer keys that apps seal their tokens to.
  package init(
    _ settings: GatewaySettings, http: HTTPSettings, publicURL: @escaping @Sendable () -> String,
    database: any Database, storageKey: StorageKey, room: RegistrationRoom,
    keyring: @escaping @Sendable () -> BouncerKeyring, deliverer: Deliverer, lossDetector: StoreLossDetector,
    now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    self.settings = settings
    self.http = http
    self.publicURL = publicURL
    subscriptions = GatewaySubscriptions(database: database, storageKey: storageKey, now: now)
    messages = GatewayMessages(
      database: database, storageKey: storageKey, now: now, isClockTrusted: lossDetector.isClockTrusted)
    secrets = GatewaySecrets(storageKey: storageKey)
    self.room = room
    self.keyring = keyring
    bouncerKeys = BouncerKeys(database: database, now: now)
    self.deliverer = deliverer
    work = FairSemaphore(http.maxBytesInFlight)
    self.lossDetector = lossDetector
    self.logger = logger
    newSubscriptions = Rate(settings.newSubscriptionsPerAddress, now: now)
    self.now = now
  }

  func endpoint(of id: GatewayID) -> String {
    publicURL() + GatewayRoutes.pushPath + secrets.endpoint(of: id)
  }

  /// Where the sender of a message can take it back.
  func address(of name: GatewayName, at id: GatewayID) -> String { "\(endpoint(of: id))/\(name.text)" }
}

/// The app's side.
extension WebPushGateway {
  /// Reads what an app sends to subscribe or to renew.
  func read(_ body: ByteBuffer) async throws -> SubscriptionRequest {
    let request = try await SubscriptionRequest(body.readableBytesView) { [self] sealed, publicKey in
      do {
        return try keyring().open(sealed, publicKey: publicKey)
      } catch BouncerKeyring.OpeningError.notOpened {
        throw APIError("encrypted_push_registration does not open with bouncer_public_key.")
      } catch {
        // A node that does not have a new key yet must not refuse it for good.
        if try await bouncerKeys.isAnnounced(publicKey) { throw APIError.tryAgainLater }
        throw APIError.unknownBouncerKey
      }
    }
    if request.sealed?.isExpired(at: now()) == true {
      guard lossDetector.isClockTrusted() else { throw APIError.tryAgainLater }
      throw APIError.sealedTooLongAgo
    }
    return request
  }

  /// Makes a subscription, or renews it. One whose row is gone is made again under its old name, so that its endpoint stays.
  ///
  /// - Returns: whether it is new.
  func put(
    _ id: GatewayID, _ request: SubscriptionRequest, from address: ClientAddress
  ) async throws -> Bool {
    let route = Route(
      provider: request.token.provider, credential: "", target: request.appID ?? "")
    let isServed = deliverer.providers.serves(route)
    return try await subscriptions.put(
      id, request, of: secrets.owner(at: address)
    ) { [self] in
      if request.senderKey == nil && secrets.wasForOneSender(id) { throw APIError.senderKeyMissing }
      // A subscription that is there stays, also while its app's key is missing.
      guard isServed else {
        rateLimitedLog.log(
          .warning, "an app that no key serves was refused at the Web Push gateway", Self.unknownApps,
          to: logger, now: now(),
          metadata: [
            "app": "\(route)",
            "advice": "put its key into Keys, or list its bundle id in topics of Keys/apns",
          ])
        throw APIError.unknownApp
      }
      if let seconds = newSubscriptions.count(address.source).retryAfter {
        throw APIError.tooManySubscriptions(retryAfter: seconds)
      }
      try room.take(.gateway, of: secrets.owner(at: address))
    }
  }

  /// Whether the database may have lost a subscription; then nobody is told that it has ended.
  func mayBeLost() async throws -> Bool { try await lossDetector.isDoubtful() }
}

/// The sender's side.
extension WebPushGateway {
  /// Bytes of memory that a message takes on its way, at most: its request, the push made from it, and its entry in the
  /// outbox if it gets one.
  private static let messageMemory = 48 << 10

  /// Counts memory for a message from this address, until it is released. Addresses share it, since whoever calls from one
  /// may have any number of subscriptions and keys.
  ///
  /// - Throws: 503 if there is no room for the address at present.
  func chargeMessage(from address: ClientAddress) throws(APIError) -> FairSemaphore<Owner>.Permit {
    guard let memory = work.take(Self.messageMemory, of: secrets.owner(at: address)) else {
      throw .tryAgainLater
    }
    return memory
  }

  /// The public key of whoever sends, if that is verified.
  ///
  /// - Throws: 401 or 403 if the subscription is for one sender only, and this is not that one; also if an authorization
  ///   is there and wrong.
  func sender(_ headers: HTTPFields, to subscription: GatewaySubscription) throws(APIError) -> [UInt8]? {
    guard let authorization = try SenderAuthorization(headers) else {
      guard subscription.senderKey.isEmpty else {
        throw .unauthorizedSender(
          "Authorization is missing: the subscription takes messages of one VAPID key.")
      }
      return nil
    }
    let (key, claims) = try senders.verify(authorization)
    do {
      try claims.check(for: publicURL(), at: now())
    } catch {
      // A sender takes this refusal as final, so it must not depend on a clock in doubt.
      guard lossDetector.isClockTrusted() else { throw .tryAgainLater }
      throw error
    }
    guard subscription.senderKey.isEmpty || subscription.senderKey == key else {
      throw .forbiddenSender("The subscription was made for another VAPID key.")
    }
    return key
  }

  /// Sends a message. Once this returns, a provider has it, or it is in the outbox.
  ///
  /// - Parameter address: of who sends it.
  /// - Returns: the name by which its sender can take it back.
  /// - Throws: 410 if the provider says that the token is dead; 429, 413 or 503 if nothing is promised.
  func send(
    _ message: GatewayMessage, to subscription: GatewaySubscription, from sender: [UInt8]?,
    at address: ClientAddress
  ) async throws -> GatewayName {
    let topic = message.topic.flatMap { secrets.name(ofTopic: $0, at: subscription.id) }
    // Whoever may choose the key could choose a new one for each message.
    let sender = sender.flatMap { subscription.senderKey.isEmpty ? nil : secrets.owner(ofSender: $0) }
    let owner = sender ?? subscription.owner
    guard var push = message.push(to: subscription, topic: topic, isKept: false, at: now()) else {
      // The token does not open: the operator learns of it by other ways.
      throw APIError.tryAgainLater
    }
    let isKept = !push.fits
    var outdated: Deliverer.Outdated?
    if let topic { outdated = try await deliverer.waiting(topic.text, of: subscription.reference) }
    if isKept {
      push = message.push(to: subscription, topic: topic, isKept: true, at: now()) ?? push
      let number = sender?.id ?? secrets.owner(at: address).network
      try await messages.keep(message, topic: topic, for: subscription, of: owner, from: number)
    }
    // Without it, what is worthless now goes when the next message comes.
    let replaced =
      isKept || topic != nil
      ? try? await messages.replaced(by: message, topic: topic, for: subscription.id, isKept: isKept) : nil
    // If this fails, the push may be on its way all the same: its body goes when its time is over.
    if let refusal = try await deliver(push, to: subscription, of: owner) {
      if isKept { try? await messages.remove([(message.id, owner)]) }
      throw refusal
    }
    if let outdated { try? await deliverer.withdraw(outdated) }
    try? await messages.remove(replaced?.map { ($0.id, $0.owner) } ?? [])
    return topic ?? GatewayName(message.id)
  }

  /// - Returns: why nothing is promised; nil if the message is on its way.
  private func deliver(
    _ push: Push, to subscription: GatewaySubscription, of owner: Owner
  ) async throws -> APIError? {
    func result(_ push: Push, _ subscription: GatewaySubscription) async throws -> DeliveryResult {
      try await deliverer.deliver(
        [RegisteredPush(push: push, registration: subscription.reference, owner: owner)],
        within: settings.deadline
      )[0]
    }
    let first = try await result(push, subscription)
    guard case .refused = first,
      let renewed = try await subscriptions.find(subscription.id), let token = renewed.token,
      token != subscription.token, token.provider == push.provider, renewed.appID == subscription.appID
    else { return APIError(first) }
    // The app has renewed its token meanwhile.
    var redirected = push
    redirected.redirect(to: token.canonical, in: renewed.environment)
    return APIError(try await result(redirected, renewed))
  }

  /// Takes back what still waits of a message.
  func takeBack(_ name: GatewayName, from subscription: GatewaySubscription) async throws {
    try await deliverer.withdraw([name.text], from: [subscription.reference])
    try await messages.remove(name, of: subscription.id)
  }

  /// The app has fetched a body: its push need not come any more.
  func end(_ body: GatewayMessages.Body, _ id: GatewayID) async throws {
    try await messages.end(id)
    // A newer message of the topic may have taken its push's place.
    guard !body.hasTopic else { return }
    try await deliverer.withdraw(
      [GatewayName(id).text],
      from: [RegistrationReference(.gateway, id: body.registration, registeredAt: now())])
  }
}
