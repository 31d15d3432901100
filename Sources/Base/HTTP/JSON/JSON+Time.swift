package import Foundation

extension JSON {
  /// RFC 3339 in UTC, to the second.
  package static func time(_ date: Date?) -> JSON {
    date.map { .string($0.formatted(.iso8601)) } ?? .null
  }
}
