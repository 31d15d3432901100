/// The owner of a request: a chat server, a user or an address. Shared resources are divided between owners, and one
/// owner's failures are not counted as the route's.
package struct Owner: Sendable, Hashable {
  /// The number that the outbox stores; 0 for ``nobody``.
  package let id: Int64

  package init(id: Int64) { self.id = id }

  /// No owner in particular.
  package static let nobody = Owner(id: 0)
}

/// Divides limited places between owners.
package enum FairShare {
  /// The number of further places that an owner may take: so many that it has at most three times as many as then remain
  /// free. A single owner gets three quarters of all, later owners still find room, and the owner that has most is refused
  /// first.
  ///
  /// - Parameters:
  ///   - own: places that the owner has.
  ///   - total: places that all owners have.
  ///   - limit: places that exist.
  package static func room(own: Int, total: Int, limit: Int) -> Int {
    max(0, min(limit - total, (3 * (limit - total) - own + 3) / 4))
  }

  /// Whether an owner may take one more place.
  package static func allows(own: Int, total: Int, limit: Int) -> Bool {
    total < limit && own < 3 * (limit - total)
  }
}
