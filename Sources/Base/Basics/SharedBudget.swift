/// An amount of bytes or places that holders share: how much is held, by whom, and who may have more. A value; whoever keeps
/// one locks it.
///
/// Its memory is bounded by what is held: a holder of nothing takes none.
///
/// What each request calls is compiled for ``Owner`` and ``ClientAddress`` besides: otherwise each call from another module looks up
/// the metadata of its types.
package struct SharedBudget<Holder: Hashable & Sendable>: Sendable {
  /// Why there is no room.
  package enum Refusal: Sendable, Hashable {
    /// All is held, or what is free is too little for so much.
    case full
    /// The holder has its share.
    case share
  }

  /// The amount that there is.
  package var limit: Int
  /// The most that one holder may have; nil for a share of what is free (``FairShare``).
  package let most: Int?
  package private(set) var total = 0
  /// The amount that each holder has, of those that have any.
  package private(set) var held: [Holder: Int] = [:]

  /// - Parameter most: the most that one holder may have; nil for a share of what is free (``FairShare``).
  package init(_ limit: Int, most: Int? = nil) {
    self.limit = limit
    self.most = most
  }

  package subscript(holder: Holder) -> Int { held[holder] ?? 0 }

  /// The further amount that a holder may take.
  @specialized(where Holder == Owner)
  @specialized(where Holder == ClientAddress)
  package func room(for holder: Holder) -> Int { room(beside: self[holder]) }

  private func room(beside own: Int) -> Int {
    guard let most else { return FairShare.room(own: own, total: total, limit: limit) }
    return max(0, min(most - own, limit - total))
  }

  /// Why a holder may not take this much; nil if it may.
  ///
  /// - Parameter holder: nil for what is no holder's, and needs no more than that it is free.
  @specialized(where Holder == Owner)
  @specialized(where Holder == ClientAddress)
  package func refusal(of amount: Int = 1, to holder: Holder?) -> Refusal? {
    let own = holder.map { self[$0] }
    if let own, let most, amount > most - own { return .share }
    guard amount <= limit - total else { return .full }
    return own.map { amount > room(beside: $0) } == true ? .share : nil
  }

  /// Takes an amount, if there is room.
  ///
  /// - Returns: whether it was taken.
  @specialized(where Holder == Owner)
  @specialized(where Holder == ClientAddress)
  package mutating func take(_ amount: Int = 1, of holder: Holder?) -> Bool {
    guard let holder else {
      guard amount <= limit - total else { return false }
      total += amount
      return true
    }
    let own = self[holder]
    guard amount <= room(beside: own) else { return false }
    total += amount
    held[holder] = own + amount
    return true
  }

  /// Counts an amount that is held, whether there is room or not.
  @specialized(where Holder == Owner)
  @specialized(where Holder == ClientAddress)
  package mutating func add(_ amount: Int = 1, of holder: Holder?) { change(by: amount, of: holder) }

  /// Gives back an amount; of a holder no more than it has.
  @specialized(where Holder == Owner)
  @specialized(where Holder == ClientAddress)
  package mutating func release(_ amount: Int = 1, of holder: Holder?) { change(by: -amount, of: holder) }

  private mutating func change(by amount: Int, of holder: Holder?) {
    guard let holder else { return total += amount }
    let own = self[holder]
    let rest = max(0, own + amount)
    total += rest - own
    held[holder] = rest > 0 ? rest : nil
  }
}

/// The share of a limit that one owner may have.
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
