package import Basics
package import Foundation

/// Settings of the Web Push gateway.
package struct GatewaySettings: Sendable {
  package init() {}

  @Setting(
    "webpush_gateway.enabled", "false", .flag,
    "the Web Push gateway: any Web Push sender reaches your apps through APNs and FCM")
  package var isEnabled: Bool

  @Setting("webpush_gateway.deadline", "3s", .duration, "how long a sender waits for the providers")
  package var deadline: Duration

  @Setting(
    "webpush_gateway.rate_limit.per_address", "6000/60s", .rate,
    "calls to the Web Push gateway, per client address; 0 switches the limit off")
  package var rateLimitPerAddress: RateLimit?

  @Setting(
    "webpush_gateway.new_subscriptions_per_address", "1000/1h", .rate,
    "new subscriptions at the Web Push gateway, per client address; 0 switches the limit off")
  package var newSubscriptionsPerAddress: RateLimit?

  @Setting(
    "webpush_gateway.max_subscriptions", "1000000", .count(atLeast: 1, example: 1_000_000),
    "subscriptions at the Web Push gateway, which addresses share (an IPv6 /48 counts as one); more are refused"
  )
  package var maxSubscriptions: Int

  // A subscription's last use is written once a day, so a shorter period than two days would be inexact.
  @Setting(
    "retention.webpush_gateway_days", "400", .days(atLeast: 2, example: 400),
    "days after which the Web Push gateway forgets a subscription that nobody renews or sends to (one that nothing was delivered to: 30 at most); 2 at least"
  )
  package var retention: TimeInterval
}
