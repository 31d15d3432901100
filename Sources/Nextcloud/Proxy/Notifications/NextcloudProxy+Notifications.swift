internal import Delivery
internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
package import NIOCore
internal import Providers
internal import Registrations
internal import Sealing
internal import Wire

extension NextcloudProxy {
  /// A request with fewer entries says nothing about the store.
  private static let fewestTelling = 20

  /// `POST /notifications` (`spec/nextcloud.md` 5.3).
  func notify(_ request: Request, _ context: WireContext) async throws -> Response {
    let body = try await request.body.collect(upTo: configuration.maximumNotificationsBytes)
    let (entries, batch) = try await read(body, type: request.headers[.contentType] ?? "")
    let hasLost = try await hasLost(batch.unknownEntries, of: entries)
    let (ended, refused) = try await send(
      batch, remembering: hasLost ? StoreRecord.doubt : SentNotifications.memory)
    // What could be sent has been: a stock server sends nothing again, and from others it is known again.
    guard !hasLost else {
      throw ProxyError(
        .serviceUnavailable, "This service has lost its devices. They come back when their apps are opened.",
        retryAfter: 3600)
    }
    var seen: Set<String> = []
    let unknown = (batch.unknown + ended).filter { seen.insert($0).inserted }
    return Envelope.response(
      .ok,
      [
        .init("unknown", .array(unknown.map(JSON.string))),
        .init("failed", .integer(Int64(batch.failed + refused))),
      ])
  }

  private func read(_ body: ByteBuffer, type: String) async throws -> (Int, NotificationBatch) {
    let entries = try NotificationsBody.entries(
      body, type: type, maximum: configuration.maximumNotifications)
    let identifiers = Set(entries.lazy.compactMap { $0.map { Bytes($0.identifier) } })
    let devices = try await dependencies.devices.lookup(identifiers.map(\.bytes))
    return (entries.count, await NotificationBatch(entries, devices: devices))
  }

  /// How many notifications a body has that would be sent: all the work of a request but the sending.
  package func rehearse(_ body: ByteBuffer) async throws -> Int {
    let now = dependencies.now()
    return try await read(body, type: "").1.accepted.map { Push($0, at: now) }.count
  }

  /// Sends what has not been sent already.
  ///
  /// - Parameter seconds: for how long the same is not sent again.
  /// - Returns: the identifiers of devices that a provider has declared dead, and how many notifications
  ///   nobody will get, those included.
  private func send(
    _ batch: NotificationBatch, remembering seconds: TimeInterval
  ) async throws -> (ended: [String], failed: Int) {
    let keys = batch.accepted.map(SentNotifications.Key.init)
    let fresh = zip(batch.accepted, zip(keys, sent.areRepeated(keys))).filter { !$1.1 }.map { ($0, $1.0) }
    guard !fresh.isEmpty else { return ([], 0) }
    let now = dependencies.now()
    let deliveries = fresh.map { notification, _ in
      Delivery(push: Push(notification, at: now), registration: notification.device.reference)
    }
    let results = try await dependencies.deliverer.deliver(deliveries)
    var ended: [String] = []
    var done: [SentNotifications.Key] = []
    var unconfigured: [RegistrationReference] = []
    for ((notification, key), result) in zip(fresh, results) {
      switch result {
      case .delivered, .queued: done.append(key)
      case .ended: ended.append(notification.entry.identifierText)
      case .refused: break
      case .unconfigured: unconfigured.append(notification.device.reference)
      }
    }
    sent.add(done, for: seconds)
    await note(unconfigured)
    return (ended, fresh.count - done.count)
  }

  /// Tells the operator that a key is missing, which the provider was never asked to say.
  private func note(_ unconfigured: [RegistrationReference]) async {
    guard !unconfigured.isEmpty else { return }
    do {
      try await dependencies.book.note(unconfigured.map { .init($0, reason: "\(Reason.unconfigured)") })
    } catch {
      dependencies.logger.error(
        "registrations could not be updated", metadata: ["error": "\(type(of: error))"])
    }
  }

  /// Whether the store may have lost the devices of so many of a request's entries: a server deletes what
  /// it is told to be unknown, so it is not told so then (`spec/decisions.md` 17).
  private func hasLost(_ unknown: Int, of entries: Int) async throws -> Bool {
    guard entries >= Self.fewestTelling, unknown * 2 > entries else { return false }
    return try await dependencies.memory.isDoubtful()
  }
}
