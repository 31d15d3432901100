package import Foundation

extension Date {
  /// The time as the database keeps it: milliseconds since 1970 UTC.
  package var milliseconds: Int64 { Int64((timeIntervalSince1970 * 1000).rounded()) }

  /// The time of a database's milliseconds.
  package init(milliseconds: Int64) {
    self.init(timeIntervalSince1970: Double(milliseconds) / 1000)
  }

  /// The present cut to what the database can tell apart, so that a time read back is equal.
  package var stored: Date { Date(milliseconds: milliseconds) }
}
