/// Who answers for a push. What is shared is dealt out between owners, and what happens to one owner's pushes is not
/// taken for everybody's trouble.
package struct Owner: Sendable, Hashable {
  /// As the outbox keeps it; 0 for nobody in particular.
  package let id: Int64

  /// The owner that the outbox keeps as this number.
  package init(id: Int64) { self.id = id }

  /// A chat server, by its row.
  package static func chatServer(_ row: Int64) -> Owner { Owner(id: row << 2 | 1) }
  /// Whatever was registered with the push proxy from one address (an IPv6 /64 is one), by a keyed hash of that.
  package static func address(_ hash: Int64) -> Owner { Owner(id: hash << 2 | 2) }
  /// A user of the built-in server, by its row.
  package static func user(_ row: Int64) -> Owner { Owner(id: row << 2 | 3) }
  /// Pushes of the program's own.
  package static let nobody = Owner(id: 0)
}

/// How places that are shared are dealt out between owners.
package enum FairShare {
  /// How many more places an owner may take: it has at most three times as many as are free then. So one that is alone
  /// gets three quarters of them, whoever comes next still finds room, and the refusal meets who has most.
  ///
  /// - Parameters:
  ///   - own: places that the owner has.
  ///   - total: places that all owners have.
  ///   - limit: how many there are.
  package static func room(own: Int, total: Int, limit: Int) -> Int {
    max(0, min(limit - total, (3 * (limit - total) - own + 3) / 4))
  }

  /// Whether an owner may take one more place.
  package static func allows(own: Int, total: Int, limit: Int) -> Bool {
    total < limit && own < 3 * (limit - total)
  }
}

/// Whom a push is for, as its route tells them apart.
struct Recipient: Sendable, Hashable {
  let owner: Owner
  /// A hash of the token, good for this process.
  let token: Int
}
