import Basics
package import Delivery
import Foundation
package import HTTP
import HTTPTypes
package import Logging
import Providers
package import Registrations
import SQL
import Sealing

/// Nextcloud's push proxy: registers the devices of apps, and forwards notifications from their servers.
package final class PushProxy: Sendable {
  /// Thrown if the app of a registration is unknown.
  struct UnknownApp: Error {
    /// The app's `User-Agent`, if it has not been logged yet.
    let name: String?
  }

  /// Results of a request's notifications.
  package struct Receipt: Sendable {
    /// Identifiers of devices that the server should delete, each once.
    package let unknown: [String]
    /// Number of notifications that are neither accepted by a provider nor in the outbox.
    package let failed: Int
  }

  /// Seconds that a phone has to register the new token that its server names. Servers delete the devices
  /// reported as unknown, and their phones do not learn of it.
  private static let renewalTime: TimeInterval = 3600
  /// How many devices that are not registered a network is told of; of more at its next notifications. Otherwise anybody
  /// could find out in seconds which of many devices are.
  private static let tellingsOfNetwork = RateLimit(calls: 2000, seconds: 3600)

  let settings: NextcloudProxySettings
  let http: HTTPSettings
  private let apps: NextcloudApps
  let logger: Logger
  private let devices: NextcloudDevices
  private let recorder: RegistrationStore
  private let deliverer: Deliverer
  private let lossDetector: StoreLossDetector
  private let unknownApps: UnknownApps
  private let sent: SentNotifications
  private let newDevices: Rate<ClientAddress>
  private let room: RegistrationRoom
  private let unverified: UnverifiedNotifications
  /// What each network is told of devices that are not registered.
  private let tellings: Rate<ClientAddress>
  /// The entries that may be read and sent at a time, by address.
  let places: FairSemaphore<ClientAddress>

  package init(
    _ settings: NextcloudProxySettings, http: HTTPSettings, apps: NextcloudApps = NextcloudApps(),
    devices: NextcloudDevices,
    recorder: RegistrationStore, room: RegistrationRoom, deliverer: Deliverer,
    lossDetector: StoreLossDetector, logger: Logger
  ) {
    self.settings = settings
    self.http = http
    self.apps = apps
    self.devices = devices
    self.recorder = recorder
    self.room = room
    self.deliverer = deliverer
    self.lossDetector = lossDetector
    self.logger = logger
    let now = devices.now
    places = FairSemaphore(
      max(Self.entriesOfAddress, http.maxBytesInFlight / Self.entryMemory),
      each: Self.entriesOfAddress)
    unknownApps = UnknownApps(now: now)
    sent = SentNotifications(now: now)
    newDevices = Rate(settings.newDevicesPerAddress, now: now)
    unverified = UnverifiedNotifications(logger: logger, now: now)
    tellings = Rate(Self.tellingsOfNetwork, now: now)
  }

  var now: @Sendable () -> Date { devices.now }
}

extension PushProxy {
  /// Registers a device. A device is an identifier together with the key that signed it, so that nobody
  /// blocks anybody: neither a server that has made new keys for its users, nor a device whose identifier
  /// somebody has guessed.
  func register(
    token: String, _ signed: SignedIdentifier, userAgents: [String], from address: ClientAddress
  ) async throws {
    guard let app = apps.app(of: userAgents) else {
      throw UnknownApp(name: unknownApps.add(userAgents.first ?? ""))
    }
    guard let destination = TokenShape(token).flatMap({ app.destination(of: $0, userAgents: userAgents) })
    else { throw APIError("pushToken is malformed: it is no token that this app can have.") }
    let owner = devices.owner(at: address)
    try await devices.register(
      .init(
        identifier: signed.identifier, userKey: signed.userKey.der, token: token,
        tokenHash: NextcloudDevice.hash(ofToken: token), destination: destination),
      of: owner
    ) { [newDevices, room] in
      if let seconds = newDevices.count(address.source).retryAfter {
        throw APIError.tooMany(
          "Too many new devices from this address. Try again later.", retryAfter: seconds)
      }
      try room.take(.nextcloud, of: owner)
    }
    await lossDetector.registered()
  }

  /// Removes a device.
  func unregister(_ signed: SignedIdentifier) async throws {
    guard try await devices.remove(identifier: signed.identifier, userKey: signed.userKey.der) else {
      throw APIError(.forbidden, "There is no device with this deviceIdentifier and userPublicKey.")
    }
  }

  /// Sends notifications of the server in this process, without HTTP.
  ///
  /// - Parameter entries: as in a request.
  package func notify(_ entries: [String]) async throws(APIError) -> Receipt {
    let deadline = ContinuousClock.now + settings.deadline
    do {
      // This program's own have no additions.
      var additions = Additions()
      let entries = entries.map { NotificationEntry(text: $0, &additions) }
      var gone = Gone()
      let failed = try await notify(entries, by: deadline, &gone)
      return Receipt(unknown: await unknown(gone, to: nil), failed: failed)
    } catch {
      throw APIError(ofProxy: error, logger: logger)
    }
  }

  /// How long a call, or a part of a long one, waits for a database that is away: a server loses what is refused, but its
  /// user waits, too.
  static let databaseWait = Duration.seconds(6)
  /// Number of a request's entries that are read and sent together.
  private static let entriesAtOnce = 500
  /// Number of entries that are parsed in one go, in about two milliseconds.
  private static let entriesInPiece = 64
  /// Maximum number of an address's entries that are read and sent at a time; further ones wait.
  private static let entriesOfAddress = 1000
  /// Bytes of memory that an entry takes until it is sent, or waits in the outbox.
  private static let entryMemory = 8192

  /// Sends the notifications of a request, a part of them at a time.
  ///
  /// - Parameter source: the caller, whose requests share its ``entriesOfAddress``.
  func notify(
    _ body: NotificationsBody, from source: ClientAddress, by deadline: ContinuousClock.Instant
  ) async throws -> (Receipt, Additions) {
    var body = body
    var gone = Gone()
    var failed = 0
    while body.count > 0 {
      let count = min(body.count, Self.entriesAtOnce)
      try await places.acquire(count, of: source)
      defer { places.release(count, of: source) }
      let entries = try await Self.read(&body, count)
      failed += try await DatabaseWait.wait(upTo: Self.databaseWait) {
        try await notify(entries, by: deadline, &gone)
      }
    }
    return (Receipt(unknown: await unknown(gone, to: source), failed: failed), body.additions)
  }

  private static func read(
    _ body: inout NotificationsBody, _ count: Int
  ) async throws -> [NotificationEntry?] {
    guard body.isLong else { return body.next(count) }
    var entries: [NotificationEntry?] = []
    while entries.count < count {
      let piece = min(entriesInPiece, count - entries.count)
      let (read, rest) = try await LongRead.piece { [body] in
        var body = body
        return (body.next(piece), body)
      }
      entries += read
      body = rest
    }
    return entries
  }

  /// Devices that the server should delete.
  private struct Gone {
    /// A provider has declared their tokens dead, and they are the tokens that their servers name.
    var dead: [NotificationEntry] = []
    /// They have not brought the tokens that their servers name.
    var differing: [NotificationEntry] = []
    /// This database does not know them.
    var missing: [NotificationEntry] = []
  }

  /// Sends a part of a request's notifications.
  ///
  /// - Parameters:
  ///   - entries: the entries; a malformed one is nil.
  ///   - gone: the devices that the server should delete are added to it.
  /// - Returns: the number of notifications that are neither accepted by a provider nor in the outbox.
  private func notify(
    _ entries: [NotificationEntry?], by deadline: ContinuousClock.Instant, _ gone: inout Gone
  ) async throws -> Int {
    let batch = try await batch(entries)
    let accepted = batch.accepted
    let differing = batch.differing
    let (ended, sent) = try await send(accepted, by: deadline)
    await orReport {
      try await devices.recordUse(
        (differing + accepted).map { .init(device: $0.device, namesToken: $0.namesToken) })
    }
    unverified.add(batch.unverified)
    gone.dead += ended
    gone.differing += differing.filter(hasRenewalTimeEnded).map(\.entry)
    gone.missing += batch.missing
    return entries.count - sent
  }

  private func batch(_ entries: [NotificationEntry?]) async throws -> NotificationBatch {
    let identifiers = Set(entries.lazy.compactMap { $0.map { Bytes($0.identifier) } })
    return try await NotificationBatch(entries, devices: try await devices.lookup(identifiers.map(\.bytes)))
  }

  /// Whether the phone's time to register the token that its server names has ended.
  private func hasRenewalTimeEnded(_ differing: NotificationBatch.Signed) -> Bool {
    guard let since = differing.device.tokenDiffersSince else { return false }
    return now().timeIntervalSince(since) >= Self.renewalTime && lossDetector.isClockTrusted()
  }

  /// The identifiers that a server is told, each once. While the database may have lost devices, those that it does not know
  /// are left out.
  ///
  /// - Parameter source: the server's address; nil for the one in this process.
  private func unknown(_ gone: Gone, to source: ClientAddress?) async -> [String] {
    var isDoubtful = false
    if !gone.differing.isEmpty || !gone.missing.isEmpty {
      isDoubtful = await orReport { try await lossDetector.isDoubtful() } ?? true
    }
    var seen: Set<Bytes> = []
    func identifiers(_ entries: [NotificationEntry]) -> [String] {
      entries.filter { seen.insert(Bytes($0.identifier)).inserted }.map(\.identifierText)
    }
    let dead = identifiers(gone.dead)
    if isDoubtful { return dead }
    let signed = dead + identifiers(gone.differing)
    let missing = identifiers(gone.missing)
    return signed
      + missing.prefix(source.map { tellings.take(missing.count, of: $0.network) } ?? missing.count)
  }

  /// Sends the notifications that were not sent before.
  ///
  /// - Returns: the entries whose device a provider has declared dead, and the number of notifications
  ///   accepted by a provider or in the outbox.
  private func send(
    _ accepted: [NotificationBatch.Signed], by deadline: ContinuousClock.Instant
  ) async throws -> (ended: [NotificationEntry], sent: Int) {
    let keys = accepted.map(SentNotifications.Key.init)
    let fresh = zip(accepted, zip(keys, sent.areRepeated(keys))).filter { !$1.1 }.map { ($0, $1.0) }
    guard !fresh.isEmpty else { return ([], accepted.count) }
    let now = now()
    let results = try await deliverer.deliver(
      fresh.map { notification, _ in
        RegisteredPush(
          push: Push(notification, at: now), registration: notification.device.reference,
          owner: notification.device.owner, isBackground: notification.entry.kind == .background)
      }, within: max(.zero, deadline - .now))
    var ended: [NotificationEntry] = []
    var done: [SentNotifications.Key] = []
    for ((notification, key), result) in zip(fresh, results) {
      switch result {
      case .delivered, .passedOn, .queued: done.append(key)
      case .ended: ended.append(notification.entry)
      case .refused: break
      }
    }
    sent.add(done)
    return (ended, accepted.count - fresh.count + done.count)
  }

  /// Logs a database error of work that must not fail the request.
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
