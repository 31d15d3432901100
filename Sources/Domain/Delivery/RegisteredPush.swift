package import Basics
package import Foundation
import HTTPClient
package import Providers
package import Registrations

/// One notification on its way to one registration.
package struct RegisteredPush: Sendable {
  /// The push as it goes to the provider.
  package var push: Push
  /// The registration that it is for, as read together with the token, so that a registration renewed meanwhile is
  /// not ended.
  package var registration: RegistrationReference
  /// The owner whose limits it counts against.
  package var owner: Owner
  /// Whether it shows nothing, as a removal of what was shown. If too many wait for a device, these are dropped first.
  package let isBackground: Bool
  /// The time before which it must not be sent, because its chat server sends too many; it waits in the outbox until then.
  package var notBefore: Date?
  /// Whether `SENDER_ID_MISMATCH` moves the registration to the ``Relay``.
  package var movesOnMismatch = false
  /// The time at which it was stored in the outbox, if it comes from there.
  var promisedAt: Date?
  /// The reason why it waits, once it is to be stored in the outbox or comes from there.
  var wait: WaitReason?

  /// The reason why a push waits in the outbox.
  struct WaitReason: Sendable, Hashable {
    let reason: Reason
    /// Whether only this device or its chat server has to wait, and the route works.
    var isOwn = false
    /// Number of tries after which the provider may have the notification, with no way to find out.
    var doubts = 0
  }

  package init(push: Push, registration: RegistrationReference, owner: Owner, isBackground: Bool = false) {
    self.push = push
    self.registration = registration
    self.owner = owner
    self.isBackground = isBackground
  }
}

extension RegisteredPush {
  /// Bytes of memory that it takes on its way, at most: its task, its request with the payload, and its entry in the
  /// outbox if it gets one.
  package var memory: Int { 8192 + 2 * push.payloadBytes }
}

/// The result of a delivery.
package enum DeliveryResult: Sendable, Hashable {
  /// The provider has accepted the notification.
  case delivered
  /// The relay has accepted it and promises to deliver it; no provider has confirmed it yet.
  case passedOn
  /// The provider reports the token as invalid, and the registration has ended.
  case ended(Reason)
  /// The provider refused this notification, or refused the token without being believed yet; the
  /// registration stays.
  case refused(Reason)
  /// No provider has accepted it yet; it is in the outbox.
  case queued
}
