package import Foundation
package import Providers
package import Registrations

/// A kind of registrations on a route whose refused tokens are not believed: either the route itself is wrong for
/// them, or the provider is.
package struct Doubt: Sendable, Hashable {
  /// Which route.
  package let route: Route
  /// Whose registrations.
  package let kind: RegistrationReference.Kind
  /// What the provider says of their tokens.
  package let reason: Reason
  /// Since when.
  package let since: Date
  /// How many deaths are held back.
  package var held = 0

  /// What it is about.
  struct Subject: Hashable {
    let route: Route
    let kind: RegistrationReference.Kind
  }

  var subject: Subject { Subject(route: route, kind: kind) }
}
