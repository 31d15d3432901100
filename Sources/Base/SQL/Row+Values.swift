import Basics
package import Foundation

extension Row {
  /// A time stored as milliseconds.
  package func date(_ name: String) throws(DatabaseError) -> Date {
    Date(milliseconds: try int64(name))
  }

  /// A time stored as milliseconds; nil for NULL.
  package func optionalDate(_ name: String) throws(DatabaseError) -> Date? {
    try optionalInt64(name).map(Date.init(milliseconds:))
  }

  /// A UUID stored as text.
  package func uuid(_ name: String) throws(DatabaseError) -> UUID {
    guard let uuid = UUID(uuidString: try text(name)) else {
      throw DatabaseError(.typeMismatch, "column \(name) holds no UUID")
    }
    return uuid
  }
}

extension Date {
  /// The time as stored: milliseconds since 1970 UTC.
  package var milliseconds: Int64 { Int64((timeIntervalSince1970 * 1000).rounded()) }

  package init(milliseconds: Int64) {
    self.init(timeIntervalSince1970: Double(milliseconds) / 1000)
  }

  /// Rounded to whole milliseconds, so that it equals the time read back from the database.
  package var stored: Date { Date(milliseconds: milliseconds) }
}

extension UUID {
  /// The spelling in the database and in Zulip's protocol: lower case, with hyphens.
  package var canonical: String { hyphenated }
}
