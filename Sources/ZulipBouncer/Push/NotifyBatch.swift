internal import Delivery
internal import Foundation
package import HTTP
internal import Logging
internal import Metrics
import NIOCore
internal import Providers
internal import Registrations
package import Sealing

/// What became of the notifications of a request.
package struct NotifyReceipt: Sendable {
  /// How many APNs took.
  package let apple: Int
  /// How many FCM and push services took.
  package let android: Int
  /// Ids that the server should forget: the unknown first, then those that APNs and those that FCM or a
  /// push service has declared dead.
  package let gone: [TokenID]

  /// As chat servers are told.
  var members: [JSON.Object.Member] {
    [
      .init("apple_successfully_sent_count", .integer(Int64(apple))),
      .init("android_successfully_sent_count", .integer(Int64(android))),
      .init("delete_token_ids", .array(gone.map { .string($0.base64) })),
    ]
  }
}

/// The items of a request matched with the registrations they are for.
struct NotifyBatch {
  private(set) var deliveries: [RegisteredPush] = []
  /// What each delivery was for, in the same order.
  private var targets: [(tokenID: TokenID, kind: PushToken.Kind)] = []
  /// Ids that no live registration of that kind has, each once.
  private var unknown: [TokenID] = []

  /// - Parameters:
  ///   - unreadable: ids of registrations of which nobody can tell what they are. They are not sent to, and are none
  ///     that the server should forget.
  ///   - owner: the chat server.
  init(
    _ notification: NotifyRequest, registrations: [Registration], unreadable: Set<TokenID> = [],
    of owner: Owner, logger: Logger
  ) {
    let byID = Dictionary(registrations.map { ($0.token.id, $0) }, uniquingKeysWith: { first, _ in first })
    var seen: Set<TokenID> = []
    var faults = notification.faults
    defer { faults.report(to: logger) }
    for item in notification.items {
      guard !unreadable.contains(item.tokenID) else {
        faults.add(.unreadable)
        continue
      }
      guard let registration = byID[item.tokenID], registration.token.kind == item.kind else {
        if seen.insert(item.tokenID).inserted { unknown.append(item.tokenID) }
        continue
      }
      do throws(ItemFault) {
        guard let push = try Push(item, for: registration) else {
          logger.error("registration without app id", metadata: ["registration": "\(registration.reference.id)"])
          continue
        }
        deliveries.append(RegisteredPush(push: push, registration: registration.reference, owner: owner))
        targets.append((item.tokenID, item.kind))
      } catch {
        faults.add(error)
      }
    }
  }

  /// What the results of the deliveries come to.
  func receipt(_ results: [DeliveryResult]) -> NotifyReceipt {
    func delivered(_ kind: PushToken.Kind) -> Int {
      zip(targets, results).count { $0.kind == kind && $1 == .delivered }
    }
    func ended(_ kind: PushToken.Kind) -> [TokenID] {
      zip(targets, results).compactMap { target, result in
        guard target.kind == kind, case .ended = result else { return nil }
        return target.tokenID
      }
    }
    var seen: Set<TokenID> = []
    return NotifyReceipt(
      apple: delivered(.apns), android: delivered(.fcm),
      gone: (unknown + ended(.apns) + ended(.fcm)).filter { seen.insert($0).inserted })
  }
}

extension Push {
  /// The push of an item; nil for an APNs registration that names no app.
  fileprivate init?(_ item: NotifyRequest.Item, for registration: Registration) throws(ItemFault) {
    switch item.content {
    case .apns(let content):
      guard let topic = registration.iosAppID else { return nil }
      self = .apns(
        APNsNotification(
          token: registration.token.text, topic: topic, payload: content.payload, pushType: content.pushType,
          priority: content.priority))
    case .fcm(let content):
      try self.init(
        toAndroid: registration.token, data: content.data, body: content.body, priority: content.priority)
    }
  }
}

/// The pace at which a chat server's notifications are sent. A refused notification is lost for good, so what is
/// beyond it is not refused but due later.
package final class NotificationPace: Sendable {
  /// A server's share of the outbox, in windows of the limit: how far ahead of now it may be booked.
  package static let share = 15.0

  private let rate: CellRate<Int64>

  /// Without a limit everything goes at once.
  init(_ limit: RateLimit?, now: @escaping @Sendable () -> Date) {
    rate = CellRate(limit, windows: Self.share, now: now)
  }

  /// Gives each of a server's notifications its time.
  ///
  /// - Throws: 503 while as much as the server's share waits already.
  func pace(_ deliveries: [RegisteredPush], of server: Int64) throws(APIError) -> [RegisteredPush] {
    let booking = rate.book(deliveries.count, of: server)
    if booking.excess > 0 {
      throw .tooManyNotifications(retryAfter: max(1, Int(booking.excess.rounded(.up))))
    }
    return deliveries.enumerated().map { index, delivery in
      guard let time = booking.time(of: index) else { return delivery }
      var delivery = delivery
      delivery.notBefore = time
      return delivery
    }
  }
}

/// Why a notification of a request is not sent.
package enum ItemFault: Error {
  /// It is not what a chat server sends: what the caller would be told.
  case malformed(APIError)
  /// Its provider takes no payload of that size.
  case tooLarge
  /// Its payload is nested too deep.
  case tooDeep
  /// The token that it is for does not open: not with this storage key, or it is damaged.
  case unreadable

  fileprivate var reason: String {
    switch self {
    case .malformed: "malformed"
    case .tooLarge: "payload_too_large"
    case .tooDeep: "payload_too_deep"
    case .unreadable: "registration_unreadable"
    }
  }
}

/// Those of a request.
struct ItemFaults {
  private var counts: [String: Int] = [:]
  /// The first that is worth telling the caller.
  private(set) var first: APIError?

  mutating func add(_ fault: ItemFault) {
    counts[fault.reason, default: 0] += 1
    if case .malformed(let error) = fault, first == nil { first = error }
  }

  /// Makes the counters, with 0: what is there only after the first time does not count as an increase.
  static func prepare() {
    for fault: ItemFault in [.malformed(APIError("")), .tooLarge, .tooDeep, .unreadable] {
      counter(fault.reason).increment(by: 0)
    }
  }

  private static func counter(_ reason: String) -> Counter {
    Counter(label: "push_bouncer_notifications_dropped_total", dimensions: [("reason", reason)])
  }

  /// Counts what was dropped and tells the operator, in one line.
  func report(to logger: Logger) {
    guard !counts.isEmpty else { return }
    for (reason, count) in counts { Self.counter(reason).increment(by: count) }
    var metadata = counts.mapValues { Logger.MetadataValue.stringConvertible($0) }
    // It names the place, never what stands there.
    if let first { metadata["first"] = .string(first.message) }
    logger.warning("notifications that cannot be sent were dropped", metadata: metadata)
  }
}

extension Push {
  /// What goes to a device that counts as an Android one: over FCM, or over Web Push where its token is a subscription.
  ///
  /// - Parameters:
  ///   - data: what FCM hands to the app.
  ///   - body: what a push service hands to it, which is the same as JSON.
  init(
    toAndroid token: PushToken, data: @autoclosure () -> [String: String],
    body: @autoclosure () -> ByteBuffer,
    priority: FCMMessage.Priority
  ) throws(ItemFault) {
    guard WebPushSubscription.isToken(token.text) else {
      self = .fcm(FCMMessage(token: token.text, data: data(), priority: priority))
      return
    }
    guard let subscription = try? WebPushSubscription(token: token.text) else { throw .unreadable }
    let body = body()
    guard body.readableBytes <= WebPushMessage.maximumBody else { throw .tooLarge }
    self = .webPush(
      WebPushMessage(subscription: subscription, body: body, urgency: priority == .high ? .high : .normal))
  }
}
