import Foundation
import Providers
import Registrations

/// Firebase installation ids. An app gets one before FCM knows it (firebase-ios-sdk, issue 16429).
extension Deliverer {
  /// Whether an installation id that FCM does not know may become known: nothing was ever delivered to it. FCM is believed if it
  /// says the same again an hour later.
  func holdsUnknown(_ delivery: RegisteredPush) async -> Bool {
    // If the database does not answer, nothing ends.
    (try? await registrations.holdUndelivered(delivery.registration, .installationIDUnknown)) ?? true
  }
}

extension RegisteredPush {
  /// Redirects the push to the present token of its device.
  mutating func retarget(_ current: RegistrationStore.Current) {
    guard let token = current.token, push.follow(token, of: current.target) else { return }
    registration = RegistrationReference(
      registration.wire, id: registration.id, registeredAt: current.registeredAt)
  }
}
