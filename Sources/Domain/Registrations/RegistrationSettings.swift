package import Basics
package import Foundation

/// Settings of how long registrations are kept.
package struct RegistrationSettings: Sendable {
  package init() {}

  @Setting(
    "retention.expired_days", "30", .days(example: 30),
    "days after which expired registrations are removed")
  package var expiredRetention: TimeInterval
}
