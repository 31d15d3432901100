package import Registrations

/// A service that is no provider, to which notifications are passed on.
package protocol Relay: Sendable {
  /// Moves registrations there, because their tokens are of a Firebase project that this service does not send for.
  ///
  /// - Returns: the registrations whose notifications are passed on from now on.
  func move(
    _ registrations: [RegistrationReference]
  ) async throws -> Set<RegistrationReference>

  /// Records the results of notifications that were passed on; others are ignored.
  func record(_ results: [DeliveryResult], of deliveries: [RegisteredPush]) async
}
