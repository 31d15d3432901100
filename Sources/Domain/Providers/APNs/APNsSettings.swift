package import Basics
package import Foundation

/// The settings of Apple's push service.
package struct APNsSettings: Sendable {
  package init() {}

  @Setting(
    "apns.endpoint", .url("https://127.0.0.1:2197"),
    "address of APNs, if not Apple's: the simulator's is https://127.0.0.1:2197")
  package var endpoint: URL?
}
