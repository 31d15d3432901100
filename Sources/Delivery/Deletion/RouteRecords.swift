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
}

/// What the answers of each way have shown, of each kind of registrations by itself: what strangers register says
/// nothing about the devices of others.
struct RouteRecords: Sendable {
  /// What an answer has changed.
  enum Change {
    case doubted(Reason)
    case trusted
  }

  private struct Key: Hashable {
    let routeSender: RouteSender.ID
    let kind: RegistrationReference.Kind
  }

  fileprivate struct Record {
    var deletionGuard = DeletionGuard()
    /// Set while the guard holds answers back.
    var doubt: (reason: Reason, since: Date)?
  }

  private var records: [Key: Record] = [:]

  /// Takes an answer into account, for the way that it came over.
  ///
  /// - Parameter present: the ways of the present credentials; what others have shown is forgotten.
  mutating func judge(
    _ outcome: Outcome, of registration: RegistrationReference, over routeSender: RouteSender, now: Date,
    present: () -> [RouteSender]
  ) -> (DeletionGuard.Verdict, Change?) {
    let key = Key(routeSender: routeSender.id, kind: registration.kind)
    if records[key] == nil {
      let present = Set(present().map(\.id))
      records = records.filter { present.contains($0.key.routeSender) }
    }
    return records[key, default: Record()].judge(outcome, registration, now)
  }

  /// What is doubted of these ways.
  func doubts(of routeSenders: [RouteSender]) -> [Doubt] {
    routeSenders.flatMap { routeSender in
      RegistrationReference.Kind.allCases.compactMap { kind in
        records[Key(routeSender: routeSender.id, kind: kind)]?.doubt.map {
          Doubt(route: routeSender.route, kind: kind, reason: $0.reason, since: $0.since)
        }
      }
    }
  }
}

extension RouteRecords.Record {
  fileprivate mutating func judge(
    _ outcome: Outcome, _ registration: RegistrationReference, _ now: Date
  ) -> (DeletionGuard.Verdict, RouteRecords.Change?) {
    let verdict = deletionGuard.judge(outcome, registeredAt: registration.registeredAt, now: now)
    switch (verdict, outcome) {
    case (.doubtRoute, .suspect(let reason)) where doubt == nil:
      doubt = (reason, now)
      return (verdict, .doubted(reason))
    case (_, .delivered) where doubt != nil:
      doubt = nil
      return (verdict, .trusted)
    default:
      return (verdict, nil)
    }
  }
}
