package import Foundation
package import HTTPClient
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
  /// Whether it shows nothing: it takes back what was shown. If too many wait for a device, these give way.
  package let isBackground: Bool
  /// If this time is in the future, the push is sent then, from the outbox: its chat server sends too many.
  package var notBefore: Date?
  /// Whether `SENDER_ID_MISMATCH` moves the registration to the ``Relay``.
  package var movesOnMismatch = false
  /// When it was stored in the outbox, if it comes from there.
  var promisedAt: Date?
  /// Why it waits, once it is to be stored in the outbox or comes from there.
  var wait: Wait?

  struct Wait: Sendable, Hashable {
    let reason: Reason
    /// Whether only this device or its chat server has to wait, and the route works.
    var isOwn = false
    /// The number of tries after which the provider may have it, with no way to find out.
    var doubts = 0
  }

  package init(push: Push, registration: RegistrationReference, owner: Owner, isBackground: Bool = false) {
    self.push = push
    self.registration = registration
    self.owner = owner
    self.isBackground = isBackground
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
}
