internal import Foundation
package import HTTP
internal import Logging
internal import Metrics
internal import NIOCore
internal import Providers
internal import Sealing

/// Why a notification of a request is not sent.
package enum ItemFault: Error {
  /// It is not what a chat server sends: what the caller would be told.
  case malformed(APIError)
  /// Its provider takes no payload of that size.
  case tooLarge
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

  mutating func add(_ fault: ItemFault, count: Int = 1) {
    guard count > 0 else { return }
    counts[fault.reason, default: 0] += count
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
    body: @autoclosure () -> ByteBuffer, priority: FCMMessage.Priority
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
