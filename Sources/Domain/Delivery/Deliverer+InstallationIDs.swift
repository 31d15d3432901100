import Foundation
import Providers
import Registrations

/// Firebase installation ids. Apps are given one before FCM knows it (firebase-ios-sdk, issue 16429).
extension Deliverer {
  /// Whether FCM does not know an installation id that nothing was ever delivered to. It is believed to be gone once FCM
  /// says so again an hour after it first did.
  func isUnknownYet(_ outcome: Outcome, _ delivery: RegisteredPush) async -> Bool {
    guard case .dead(.fcmUnregistered, _) = outcome, case .fcm(let message) = delivery.push,
      FCMMessage.isInstallationID(message.token)
    else { return false }
    // Without an answer of the database nothing ends.
    return (try? await registrations.holdUndelivered(delivery.registration, .installationIDUnknown)) ?? true
  }
}

extension RegisteredPush {
  /// Goes to the token that its device has now.
  mutating func retarget(_ current: RegistrationStore.Current) {
    guard let token = current.token, case .fcm(var message) = push, message.token != token else { return }
    message.token = token
    push = .fcm(message)
    registration = RegistrationReference(
      registration.kind, id: registration.id, registeredAt: current.registeredAt)
  }
}
