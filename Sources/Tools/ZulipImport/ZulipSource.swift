import Foundation
package import SQL

package enum ZulipSource: Sendable {
  /// The database of a Zulip server.
  case database(DatabaseURL)
  /// A folder of CSV files named after the tables, with headers.
  case folder(ZulipFolder)

  /// Reads a `postgres://` URL, or else the path of a folder, whose files are opened at once, with the
  /// present rights of the process.
  ///
  /// - Throws: ``ZulipSourceError`` if it is neither, or a file is missing that all versions have.
  package init(_ text: String) throws(ZulipSourceError) {
    guard text.contains("://") else {
      var isFolder: ObjCBool = false
      guard FileManager.default.fileExists(atPath: text, isDirectory: &isFolder), isFolder.boolValue else {
        throw ZulipSourceError("there is no folder \(text)")
      }
      self = .folder(try ZulipFolder(path: text))
      return
    }
    // The text may contain a password, so the errors do not repeat it.
    guard text.lowercased().hasPrefix("postgres") else {
      throw ZulipSourceError("a source is postgres://USER:PASSWORD@HOST:PORT/NAME, or a folder of CSV files")
    }
    do {
      self = .database(try DatabaseURL(text))
    } catch {
      throw ZulipSourceError("the URL \(error.message)")
    }
  }

  func open<Result>(_ body: (any ZulipOrigin) async throws -> Result) async throws -> Result {
    switch self {
    case .folder(let folder):
      try await body(folder)
    case .database(let url):
      try await ForeignPostgreSQL.snapshot(of: url) { snapshot in
        try await body(ZulipDatabase(snapshot, url: url))
      }
    }
  }
}

/// An opened source: a database or a folder of files.
protocol ZulipOrigin: Sendable {
  func has(_ table: ZulipTable) -> Bool
  /// Size of a table, in a unit that is the same for all tables of the source.
  func size(of table: ZulipTable) async throws -> Int64
  func rows(of table: ZulipTable, batch: Int) async throws -> any ZulipRows
}

/// The rows of one table of a source, in batches.
protocol ZulipRows: Actor {
  /// Returns the next rows and their size; no rows at the end.
  func next() async throws -> (rows: [SourceRow], size: Int64)
}

/// An error in a source.
package struct ZulipSourceError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Names the table or file, the position and the error; never a token or a key.
  package let description: String

  init(_ description: String) { self.description = description }
}

/// A table of a Zulip bouncer (`Documentation/Protocols/Zulip.md` 1.3). The cases are in the order of the
/// import: each table follows those that it refers to.
package enum ZulipTable: String, Sendable, CaseIterable {
  case servers = "zilencer_remotezulipserver"
  /// Missing in old versions.
  case realms = "zilencer_remoterealm"
  /// E2EE registrations; missing in old versions.
  case devices = "zilencer_remotepushdevice"
  /// Legacy registrations.
  case tokens = "zilencer_remotepushdevicetoken"

  struct Columns: Sendable {
    let names: [String]
    /// How many of the columns, from the first, all versions have.
    let required: Int
    let places: [String: Int]

    init(_ required: String, _ optional: String) {
      names = "\(required) \(optional)".split(separator: " ").map(String.init)
      self.required = required.split(separator: " ").count
      places = Dictionary(uniqueKeysWithValues: zip(names, 0...))
    }
  }

  var title: String {
    switch self {
    case .servers: "Servers"
    case .realms: "Realms"
    case .devices: "E2EE registrations"
    case .tokens: "Legacy registrations"
    }
  }

  /// Whether all versions have the table.
  var isRequired: Bool { self == .servers || self == .tokens }

  /// The columns that are read; the first is the key.
  var columns: Columns {
    switch self {
    case .servers: Self.serverColumns
    case .realms: Self.realmColumns
    case .devices: Self.deviceColumns
    case .tokens: Self.tokenColumns
    }
  }

  private static let serverColumns = Columns(
    "id uuid api_key hostname",
    """
    contact_email last_updated last_version last_request_datetime last_api_feature_level last_merge_base deactivated \
    last_audit_log_update
    """)
  private static let realmColumns = Columns(
    "id server_id uuid uuid_owner_secret",
    """
    host name is_system_bot_realm authentication_methods org_type last_request_datetime realm_deactivated \
    realm_locally_deleted realm_date_created
    """)
  private static let deviceColumns = Columns(
    "device_id remote_realm_id token token_id token_kind", "expired_time ios_app_id")
  private static let tokenColumns = Columns(
    "id server_id kind token", "user_id user_uuid ios_app_id remote_realm_id last_updated")
}

/// A row with PostgreSQL's text values, from a database or a file.
struct SourceRow: Sendable {
  let table: ZulipTable
  let columns: ZulipTable.Columns
  /// First line of the row in a file; nil for a database.
  let line: Int?
  /// Values by column; nil for NULL and for missing columns.
  let values: [String?]

  subscript(column: String) -> String? { columns.places[column].flatMap { values[$0] } }

  var id: Int64 { get throws(ZulipSourceError) { try integer(columns.names[0]) } }

  func integer(_ column: String) throws(ZulipSourceError) -> Int64 {
    try required(column, try optionalInteger(column), "an integer")
  }

  func optionalInteger(_ column: String) throws(ZulipSourceError) -> Int64? {
    try parse(column, "an integer of 64 bits", Int64.init)
  }

  func uuid(_ column: String) throws(ZulipSourceError) -> UUID {
    try required(column, try optionalUUID(column), "a UUID")
  }

  func optionalUUID(_ column: String) throws(ZulipSourceError) -> UUID? {
    try parse(column, "a UUID") { UUID(uuidString: $0) }
  }

  /// A missing column is false.
  func flag(_ column: String) throws(ZulipSourceError) -> Bool {
    try parse(column, "t or f") { ["t": true, "true": true, "f": false, "false": false][$0] } ?? false
  }

  func time(_ column: String) throws(ZulipSourceError) -> Date? {
    try parse(column, "a time with its zone", Date.init(postgreSQL:))
  }

  private func parse<Result>(
    _ column: String, _ wanted: String, _ body: (String) -> Result?
  ) throws(ZulipSourceError) -> Result? {
    guard let text = self[column] else { return nil }
    return try required(column, body(text), wanted)
  }

  private func required<Result>(
    _ column: String, _ value: Result?, _ wanted: String
  ) throws(ZulipSourceError) -> Result {
    if let value { return value }
    let place = line.map { ".csv, line \($0)" } ?? ", row \(values[0] ?? "?")"
    throw ZulipSourceError("\(table.rawValue)\(place): column \(column): expected \(wanted)")
  }
}

extension Date {
  /// Reads a `timestamptz` in PostgreSQL's ISO style: `2024-05-06 07:08:09.123456+05:30`, also with `T` in
  /// the middle and `Z` at the end.
  ///
  /// Parsed by hand, because there are millions, and Foundation's parsers take 10 µs or more for each.
  init?(postgreSQL text: String) {
    var rest = text.utf8[...]
    func skip(_ characters: String) -> Bool {
      guard let first = rest.first, characters.utf8.contains(first) else { return false }
      rest.removeFirst()
      return true
    }
    func number(_ length: ClosedRange<Int>, below limit: Int, after separators: String? = nil) -> Int? {
      if let separators, !skip(separators) { return nil }
      let digits = rest.prefix { (48...57).contains($0) }.prefix(length.upperBound)
      guard digits.count >= length.lowerBound, let number = Int(Substring(digits)), number < limit else {
        return nil
      }
      rest = rest.dropFirst(digits.count)
      return number
    }
    guard let year = number(4...6, below: 1_000_000), let month = number(2...2, below: 13, after: "-"),
      let day = number(2...2, below: 32, after: "-"), let hour = number(2...2, below: 24, after: " T"),
      let minute = number(2...2, below: 60, after: ":"), let second = number(2...2, below: 60, after: ":")
    else { return nil }
    var fraction = 0.0
    if skip(".") {
      let length = rest.count
      guard let digits = number(1...9, below: .max) else { return nil }
      fraction = (0..<length - rest.count).reduce(Double(digits)) { value, _ in value / 10 }
    }
    var offset = 0
    if !skip("Z") {
      let isWest = rest.first == UInt8(ascii: "-")
      guard let hours = number(2...2, below: 24, after: "+-"),
        let minutes = skip(":") ? number(2...2, below: 60) : 0
      else { return nil }
      offset = (isWest ? -1 : 1) * (hours * 3600 + minutes * 60)
    }
    guard rest.isEmpty, month > 0, day > 0 else { return nil }
    var parts = tm()
    parts.tm_year = Int32(year - 1900)
    parts.tm_mon = Int32(month - 1)
    parts.tm_mday = Int32(day)
    parts.tm_hour = Int32(hour)
    parts.tm_min = Int32(minute)
    parts.tm_sec = Int32(second)
    self.init(timeIntervalSince1970: Double(timegm(&parts) - offset) + fraction)
  }
}
