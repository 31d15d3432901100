package import Registrations

/// Another service, at which a registration can live instead: notifications for it are passed on.
package protocol Relay: Sendable {
  /// Moves registrations there whose tokens are of a Firebase project that this service does not send for.
  ///
  /// - Returns: those that live there from now on.
  func takeOver(
    _ registrations: [RegistrationReference]
  ) async throws -> Set<RegistrationReference>

  /// Records what became of notifications that were passed on; others are left out.
  func record(_ results: [DeliveryResult], of deliveries: [RegisteredPush]) async
}
