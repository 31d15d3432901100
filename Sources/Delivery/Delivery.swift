public import Foundation
public import Providers

/// One notification on its way to one registration.
public struct Delivery: Sendable {
  /// What goes to the provider.
  public var push: Push
  /// The registration that it is for.
  public var registration: Int64
  /// When that registration was last made, as it was read along with the token: a registration
  /// that was made again meanwhile does not end.
  public var registeredAt: Date

  /// A delivery by its parts.
  public init(push: Push, registration: Int64, registeredAt: Date) {
    self.push = push
    self.registration = registration
    self.registeredAt = registeredAt
  }
}

/// What became of a delivery.
public enum DeliveryResult: Sendable, Hashable {
  /// The provider accepted it.
  case delivered
  /// The provider says that the token is no longer valid; the registration has ended.
  case ended(Reason)
  /// The provider refused this notification or, for now unconvincingly, the token; the registration stays.
  case refused(Reason)
  /// It could not be delivered: an outage, or our own misconfiguration.
  case failed(Reason)
  /// No credential serves the topic or project.
  case unconfigured
}
