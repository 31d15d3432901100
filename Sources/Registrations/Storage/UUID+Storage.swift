package import Foundation

extension UUID {
  /// As the database and Zulip's wire spell it: lower case, with hyphens.
  package var canonical: String { uuidString.lowercased() }
}
