package import Delivery
internal import Foundation
package import HTTP
internal import HTTPTypes
package import Logging
internal import Providers
package import Registrations
internal import SQL
internal import Sealing

/// Nextcloud's push proxy: registers the devices of apps, and sends them what their servers have for them.
package final class PushProxy: Sendable {
  package struct Configuration: Sendable {
    /// `nextcloud.apps_file`
    package var apps = NextcloudApps()
    /// `nextcloud.rate_limit.per_address`
    package var rateLimitPerAddress: RateLimit? = RateLimit(calls: 6000, seconds: 60)
    /// `nextcloud.new_devices_per_address`
    package var newDevicesPerAddress: RateLimit? = RateLimit(calls: 1000, seconds: 3600)
    /// Notifications of a device that are sent at once, the rest at that pace. What FCM takes for one in a minute.
    var notificationsPerDevice = [
      RateLimit(calls: 240, seconds: 60), RateLimit(calls: 5000, seconds: 3600),
    ]
    /// `nextcloud.deadline`: how long a request waits for providers.
    package var deadline = Duration.seconds(3)
    /// `http.max_body_bytes`
    package var maximumBodyBytes = 1 << 20
    /// The same for `/notifications`.
    package var maximumNotificationsBytes = 16 << 20
    /// In one request.
    var maximumNotifications = 20_000

    package init() {}
  }

  /// Nobody knows the app that wants to register.
  struct UnknownApp: Error {
    /// What it calls itself, if the operator has yet to be told.
    let name: String?
  }

  /// What became of a request's notifications.
  package struct Receipt: Sendable {
    /// The identifiers of devices that their server should forget, each once.
    package let unknown: [String]
    /// How many notifications are neither with a provider nor in the outbox.
    package let failed: Int
  }

  /// How long a phone whose server names a new token has to bring it here, in seconds: servers delete what they
  /// are told to be unknown, and their phones learn nothing of it.
  private static let renewalTime: TimeInterval = 3600

  let configuration: Configuration
  let logger: Logger
  private let devices: NextcloudDevices
  private let recorder: RegistrationStore
  private let deliverer: Deliverer
  private let lossDetector: StoreLossDetector
  private let unknownApps: UnknownApps
  private let sent: SentNotifications
  private let newDevices: RateLimiter<ClientAddress>
  /// Of each device: all of them are kept to.
  private let paces: [CellRate<Int64>]

  package init(
    _ configuration: Configuration = .init(), devices: NextcloudDevices, recorder: RegistrationStore,
    deliverer: Deliverer, lossDetector: StoreLossDetector, logger: Logger
  ) {
    self.configuration = configuration
    self.devices = devices
    self.recorder = recorder
    self.deliverer = deliverer
    self.lossDetector = lossDetector
    self.logger = logger
    let now = devices.now
    unknownApps = UnknownApps(now: now)
    sent = SentNotifications(now: now)
    newDevices = RateLimiter(configuration.newDevicesPerAddress, now: now)
    paces = configuration.notificationsPerDevice.map { CellRate($0, windows: 1, now: now) }
  }

  var now: @Sendable () -> Date { devices.now }
}

extension PushProxy {
  /// Registers a device. A device is an identifier together with the key that has signed it, so that nobody
  /// stands in the way of anybody: neither of a server that has made new keys for its users, nor of a device
  /// whose identifier somebody has guessed.
  func register(
    token: String, _ signed: SignedIdentifier, userAgents: [String], from address: ClientAddress
  ) async throws {
    guard let app = configuration.apps.app(of: userAgents) else {
      throw UnknownApp(name: unknownApps.add(userAgents.first ?? ""))
    }
    guard let destination = TokenShape(token).flatMap({ app.destination(of: $0, userAgents: userAgents) })
    else { throw ProxyError("pushToken is malformed: it is no token that this app can have.") }
    try await devices.register(
      .init(
        identifier: signed.identifier, userKey: signed.userKey.der, token: token,
        tokenHash: NextcloudDevice.hash(ofToken: token), destination: destination),
      from: address.source.description
    ) { [newDevices] in
      guard let seconds = newDevices.count(address.source).retryAfter else { return }
      throw ProxyError(
        .tooManyRequests, "Too many new devices from this address. Try again later.", retryAfter: seconds)
    }
    await lossDetector.registered()
  }

  func unregister(_ signed: SignedIdentifier) async throws {
    guard try await devices.remove(identifier: signed.identifier, userKey: signed.userKey.der) else {
      throw ProxyError(.forbidden, "There is no device with this deviceIdentifier and userPublicKey.")
    }
  }

  /// Sends notifications of a server that is part of this program, which calls without a wire.
  ///
  /// - Parameter entries: as they would stand in a request.
  package func notify(_ entries: [String]) async throws(ProxyError) -> Receipt {
    let deadline = ContinuousClock.now + configuration.deadline
    do {
      return try await notify(entries.map(NotificationEntry.init(text:)), by: deadline)
    } catch {
      throw ProxyError(error, logger: logger)
    }
  }

  /// Sends what can be sent.
  ///
  /// - Parameter entries: those of a request; nil stands for one that is malformed.
  func notify(
    _ entries: [NotificationEntry?], by deadline: ContinuousClock.Instant
  ) async throws -> Receipt {
    let batch = try await batch(entries)
    let (ended, sent) = try await send(batch.accepted, by: deadline)
    await orReport { try await devices.note(batch.signed) }
    let gone = batch.missing + batch.differing.filter(isOver).map(\.entry) + ended
    return Receipt(
      unknown: await isDoubtful(gone) ? [] : Self.identifiers(of: gone), failed: entries.count - sent)
  }

  private func batch(_ entries: [NotificationEntry?]) async throws -> NotificationBatch {
    let identifiers = Set(entries.lazy.compactMap { $0.map { Bytes($0.identifier) } })
    return await NotificationBatch(entries, devices: try await devices.lookup(identifiers.map(\.bytes)))
  }

  private static func identifiers(of entries: [NotificationEntry]) -> [String] {
    var seen: Set<Bytes> = []
    return entries.filter { seen.insert(Bytes($0.identifier)).inserted }.map(\.identifierText)
  }

  /// Whether a phone has had the time to bring the token that its server names.
  private func isOver(_ differing: NotificationBatch.Differing) -> Bool {
    guard let since = differing.device.tokenDiffersSince else { return false }
    return now().timeIntervalSince(since) >= Self.renewalTime && lossDetector.mayExpire()
  }

  /// Whether the store may have lost what it does not know: then no server is told to delete anything.
  private func isDoubtful(_ gone: [NotificationEntry]) async -> Bool {
    guard !gone.isEmpty else { return false }
    return await orReport { try await lossDetector.isDoubtful() } ?? true
  }

  /// Sends what has not been sent already.
  ///
  /// - Returns: those whose device a provider has declared dead, and how many notifications are with a
  ///   provider or in the outbox.
  private func send(
    _ accepted: [NotificationBatch.Accepted], by deadline: ContinuousClock.Instant
  ) async throws -> (ended: [NotificationEntry], sent: Int) {
    let keys = accepted.map(SentNotifications.Key.init)
    let fresh = zip(accepted, zip(keys, sent.areRepeated(keys))).filter { !$1.1 }.map { ($0, $1.0) }
    guard !fresh.isEmpty else { return ([], accepted.count) }
    let now = now()
    let results = try await deliver(
      fresh.map { notification, _ in
        RegisteredPush(
          push: Push(notification, at: now), registration: notification.device.reference,
          owner: notification.device.owner)
      }, within: max(.zero, deadline - .now))
    var ended: [NotificationEntry] = []
    var done: [SentNotifications.Key] = []
    var unconfigured: [RegistrationReference] = []
    for ((notification, key), result) in zip(fresh, results) {
      switch result {
      case .delivered, .queued: done.append(key)
      case .ended: ended.append(notification.entry)
      case .refused: break
      case .unconfigured: unconfigured.append(notification.device.reference)
      }
    }
    sent.add(done)
    // No provider was asked, so that nobody else tells the operator that a key is missing.
    await orReport { [unconfigured] in
      guard !unconfigured.isEmpty else { return }
      try await recorder.note(unconfigured.map { .init($0, reason: "\(Reason.unconfigured)") })
    }
    return (ended, accepted.count - fresh.count + done.count)
  }

  /// Gives what is beyond a device's paces its time. Anybody may register a device, and sends it pushes under the
  /// operator's credential then; where as much waits as a device may have in the outbox, the rest is refused there.
  /// What has not been tried either counts for no pace.
  private func deliver(
    _ deliveries: [RegisteredPush], within limit: Duration
  ) async throws -> [DeliveryResult] {
    var deliveries = deliveries
    let bookings = deliveries.indices.map { index in
      let bookings = paces.map { $0.book(1, of: deliveries[index].registration.id) }
      deliveries[index].notBefore = bookings.compactMap { $0.time(of: 0) }.max()
      return bookings
    }
    let results = try await deliverer.deliver(deliveries, within: limit)
    for (index, result) in results.enumerated()
    where result == .refused(.backlogged) && deliveries[index].notBefore != nil {
      for (pace, booking) in zip(paces, bookings[index]) { pace.cancel(booking) }
    }
    return results
  }

  /// What concerns the store alone keeps no notification from being answered: a fault of it is told to the operator.
  @discardableResult
  private func orReport<Result: Sendable>(_ work: () async throws -> Result) async -> Result? {
    do {
      return try await work()
    } catch {
      logger.error(
        "registrations could not be updated", metadata: ["error": "\(DatabaseError.name(of: error))"])
      return nil
    }
  }
}
