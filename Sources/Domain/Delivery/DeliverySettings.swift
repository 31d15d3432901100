package import Basics

/// Settings of how long callers wait for providers, and how long notifications are kept.
package struct DeliverySettings: Sendable {
  package init() {}

  @Setting("delivery.deadline", "3s", .duration, "how long a notify request waits for the providers")
  package var deadline: Duration

  @Setting(
    "delivery.max_age", "24h", .duration,
    "how long an undelivered notification is tried again before it is given up")
  package var maxAge: Duration
}
