package import Foundation
package import Settings

/// Apple's push service.
package struct APNsSettings: Sendable {
  package init() {}

  @Setting(
    "apns.endpoint", .url("https://127.0.0.1:2197"),
    "address in the place of Apple's, for the simulator: https://127.0.0.1:2197")
  package var endpoint: URL?
}
