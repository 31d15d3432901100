package import Foundation
package import SQL

extension Row {
  /// A time kept as milliseconds.
  package func date(_ index: Int) throws(DatabaseError) -> Date {
    Date(milliseconds: try int64(index))
  }

  /// A time kept as milliseconds, or nil for NULL.
  package func optionalDate(_ index: Int) throws(DatabaseError) -> Date? {
    try optionalInt64(index).map(Date.init(milliseconds:))
  }

  /// A UUID kept as text.
  package func uuid(_ index: Int) throws(DatabaseError) -> UUID {
    guard let uuid = UUID(uuidString: try text(index)) else {
      throw DatabaseError(.typeMismatch, "column \(index) holds no UUID")
    }
    return uuid
  }
}
