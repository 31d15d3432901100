package import Basics
package import Foundation

/// The settings of Google's push service.
package struct FCMSettings: Sendable {
  package init() {}

  @Setting(
    "fcm.endpoint", "https://fcm.googleapis.com", .url("https://127.0.0.1:2198"),
    "address of FCM: Google's, or the simulator's")
  package var endpoint: URL?

  @Setting(
    "fcm.default_project", .text("example-chat"),
    "Firebase project of a message that names none: its file in Keys/fcm, without .json")
  package var defaultProject: String?
}
