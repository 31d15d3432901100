package import Foundation
package import Providers
package import Registrations

/// One notification on its way to one registration.
package struct RegisteredPush: Sendable {
  /// What goes to the provider.
  package var push: Push
  /// The registration that it is for, as it was read along with the token: one that was made again
  /// meanwhile does not end.
  package var registration: RegistrationReference
  /// Who answers for it.
  package var owner: Owner
  /// If this is yet to come, it goes from the outbox then.
  package var notBefore: Date?
  /// When it was put into the outbox, if it comes from there.
  var promisedAt: Date?

  package init(push: Push, registration: RegistrationReference, owner: Owner) {
    self.push = push
    self.registration = registration
    self.owner = owner
  }
}

/// What became of a delivery.
package enum DeliveryResult: Sendable, Hashable {
  /// The provider accepted it.
  case delivered
  /// The provider says that the token is no longer valid; the registration has ended.
  case ended(Reason)
  /// The provider refused this notification or, for now unconvincingly, the token; the registration stays.
  case refused(Reason)
  /// No provider could take it yet; it is in the outbox.
  case queued
  /// No credential serves the topic or project.
  case unconfigured
}
