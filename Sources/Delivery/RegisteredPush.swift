package import Foundation
package import Providers
package import Registrations

/// One notification on its way to one registration.
package struct RegisteredPush: Sendable {
  /// What goes to the provider.
  package var push: Push
  /// The registration it is for, as read together with the token, so that a registration renewed meanwhile is
  /// not ended.
  package var registration: RegistrationReference
  /// Whose limits it counts against.
  package var owner: Owner
  /// If this time is in the future, the push is sent then, from the outbox.
  package var notBefore: Date?
  /// Whether a provider's answer that the token is another project's means that it is the other bouncer's.
  package var mayBeUpstreams = false
  /// When it was stored in the outbox, if it comes from there.
  var promisedAt: Date?

  package init(push: Push, registration: RegistrationReference, owner: Owner) {
    self.push = push
    self.registration = registration
    self.owner = owner
  }
}

/// Result of a delivery.
package enum DeliveryResult: Sendable, Hashable {
  case delivered
  /// Another bouncer took it and promises it; it has not said that a provider accepted it.
  case passedOn
  /// The provider calls the token invalid, and the registration has ended.
  case ended(Reason)
  /// The provider refused this notification, or refused the token without being believed yet; the
  /// registration stays.
  case refused(Reason)
  /// No provider could accept it yet; it is in the outbox.
  case queued
  /// No credential serves the topic or project.
  case unconfigured
}
