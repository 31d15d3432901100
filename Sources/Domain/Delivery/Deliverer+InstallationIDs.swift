import Foundation
import Providers
import Registrations

/// Firebase installation ids. Apps are given one before FCM knows it (firebase-ios-sdk, issue 16429).
extension Deliverer {
  /// Seconds until the first further try.
  private static let pause: TimeInterval = 60

  /// Returns the outcome, unless FCM does not know an installation id that nothing was ever delivered to: then its
  /// notifications wait. It is believed to be gone once FCM says so again an hour after it first did.
  func unlessTooEarly(_ outcome: Outcome, for delivery: RegisteredPush) async -> Outcome {
    guard case .dead(.fcmUnregistered, _) = outcome, case .fcm(let message) = delivery.push,
      FCMMessage.isInstallationID(message.token),
      // Without an answer of the database nothing ends.
      (try? await registrations.holdUndelivered(delivery.registration, .installationIDUnknown)) ?? true
    else { return outcome }
    return .retry(.installationIDUnknown, notBefore: now() + Self.pause, scope: .token)
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
