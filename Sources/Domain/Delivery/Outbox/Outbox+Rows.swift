import Foundation
import Providers
import Registrations
import SQL
package import Sealing

extension Connection {
  /// The rows to be removed of a registration that has too many, each with its share; the share is nil if this program does
  /// not know it.
  func surplus(
    of registration: Int64, new: [Int64], count: Int64
  ) throws -> [(id: Int64, share: OutboxDepth.Share?)] {
    try query(
      Statement(
        """
        SELECT o.id, r.provider, r.credential, r.target, r.owner, o.wire
        FROM outbox o JOIN outbox_routes r ON r.id = o.route_id
        WHERE o.registration_id = $1 AND (o.is_background = 1 OR o.id IN ($list))
        ORDER BY o.is_background DESC, o.id DESC LIMIT $2
        """, .integer(registration), .integer(count), list: new.map { .integer($0) })
    ).map { row in
      (try row.int64("id"), try .init(row))
    }
  }
}

extension Outbox {
  /// Seals the whole push, token included, as one value. It is JSON so that later versions can read it too.
  func seal(_ push: Push, for registration: Int64) throws -> [UInt8] {
    storageKey.seal([UInt8](try JSONEncoder().encode(push)), at: Self.place(of: registration))
  }

  /// Returns nil if the value was sealed under another key or for another registration, or is of an unknown
  /// kind.
  func open(_ sealed: [UInt8], for registration: Int64) -> Push? {
    storageKey.open(sealed, at: Self.place(of: registration))
      .flatMap { try? JSONDecoder().decode(Push.self, from: Data($0)) }
  }

  /// The sealed place of the pushes to a registration.
  package static func place(of registration: Int64) -> SealedPlace {
    SealedColumn.outboxPush.place(.integer(registration))
  }

  /// 64 bits of a keyed hash of a registration and a collapse id; nil stands for all registrations.
  func collapseHash(of collapseID: String, _ registration: RegistrationReference?) -> Int64 {
    storageKey.number("\(registration?.id ?? 0) \(collapseID)", for: Self.collapsePurpose)
  }

  private static let collapsePurpose = StorageKey.Purpose("outbox.collapse")
}
