internal import Delivery
internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Logging
package import NIOCore
internal import Providers
internal import Registrations
internal import SQL
internal import Sealing

extension NextcloudProxyRoutes {
  /// How long a phone whose server names a new token has to bring it here, in seconds: servers delete what they
  /// are told to be unknown, and their phones learn nothing of it.
  private static let renewalTime: TimeInterval = 3600

  /// `POST /notifications`.
  func notify(_ request: Request, _ context: WireContext) async throws -> Response {
    let body = try await request.wholeBody(upTo: configuration.maximumNotificationsBytes)
    let deadline = ContinuousClock.now + configuration.deadline
    let (type, maximum) = (request.headers[.contentType] ?? "", configuration.maximumNotifications)
    let entries = try await LongRead.of(body.readableBytes) {
      try NotificationsBody.entries(body, type: type, maximum: maximum)
    }
    let receipt = try await notify(entries, by: deadline)
    return Envelope.response(
      .ok,
      [
        .init("unknown", .array(receipt.unknown.map(JSON.string))),
        .init("failed", .integer(Int64(receipt.failed))),
      ])
  }

  /// What became of a request's notifications.
  package struct Receipt: Sendable {
    /// The identifiers of devices that their server should forget, each once.
    package let unknown: [String]
    /// How many notifications are neither with a provider nor in the outbox.
    package let failed: Int
  }

  /// Sends notifications of a server that is part of this program, which calls without a wire.
  ///
  /// - Parameter entries: as they would stand in a request.
  package func notify(_ entries: [String]) async throws(ProxyError) -> Receipt {
    let deadline = ContinuousClock.now + configuration.deadline
    do {
      return try await notify(entries.map(NotificationEntry.init(text:)), by: deadline)
    } catch {
      throw ProxyError(error, logger: dependencies.logger)
    }
  }

  private func notify(
    _ entries: [NotificationEntry?], by deadline: ContinuousClock.Instant
  ) async throws -> Receipt {
    let batch = try await batch(entries)
    let (ended, sent) = try await send(batch.accepted, by: deadline)
    await note(batch.signed)
    let gone = batch.missing + batch.differing.filter(isOver).map(\.entry) + ended
    return Receipt(
      unknown: await isDoubtful(gone) ? [] : Self.identifiers(of: gone), failed: entries.count - sent)
  }

  /// The identifiers of entries, each once.
  private static func identifiers(of entries: [NotificationEntry]) -> [String] {
    var seen: Set<Bytes> = []
    return entries.filter { seen.insert(Bytes($0.identifier)).inserted }.map(\.identifierText)
  }

  /// Whether a phone has had the time to bring the token that its server names.
  private func isOver(_ differing: NotificationBatch.Differing) -> Bool {
    guard let since = differing.device.tokenDiffersSince else { return false }
    return dependencies.now().timeIntervalSince(since) >= Self.renewalTime && dependencies.mayExpire()
  }

  /// Whether the store may have lost what it does not know: then no server is told to delete anything.
  private func isDoubtful(_ gone: [NotificationEntry]) async -> Bool {
    guard !gone.isEmpty else { return false }
    do {
      return try await dependencies.lossDetector.isDoubtful()
    } catch {
      report(error)
      return true
    }
  }

  private func batch(_ entries: [NotificationEntry?]) async throws -> NotificationBatch {
    let identifiers = Set(entries.lazy.compactMap { $0.map { Bytes($0.identifier) } })
    let devices = try await dependencies.devices.lookup(identifiers.map(\.bytes))
    return await NotificationBatch(entries, devices: devices)
  }

  /// How many notifications a body has that would be sent: all the work of a request but the sending.
  package func rehearse(_ body: ByteBuffer) async throws -> Int {
    let now = dependencies.now()
    let entries = try NotificationsBody.entries(
      body, type: "", maximum: configuration.maximumNotifications)
    return try await batch(entries).accepted.map { Push($0, at: now) }.count
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
    let now = dependencies.now()
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
    await note(unconfigured)
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
    let results = try await dependencies.deliverer.deliver(deliveries, within: limit)
    for (index, result) in results.enumerated()
    where result == .refused(.backlogged) && deliveries[index].notBefore != nil {
      for (pace, booking) in zip(paces, bookings[index]) { pace.cancel(booking) }
    }
    return results
  }

  /// Writes down which devices are in use; what could not be written shows at the next notification.
  private func note(_ signed: [NextcloudDevices.Signed]) async {
    do {
      try await dependencies.devices.note(signed)
    } catch {
      report(error)
    }
  }

  /// Tells the operator that a key is missing, which the provider was never asked to say.
  private func note(_ unconfigured: [RegistrationReference]) async {
    guard !unconfigured.isEmpty else { return }
    do {
      try await dependencies.recorder.note(unconfigured.map { .init($0, reason: "\(Reason.unconfigured)") })
    } catch {
      report(error)
    }
  }

  private func report(_ error: any Error) {
    dependencies.logger.error(
      "registrations could not be updated", metadata: ["error": "\(DatabaseError.name(of: error))"])
  }
}
