import Foundation

/// The location of the database: `sqlite:path` or `postgres://user:password@host:port/name?sslmode=...`.
package struct DatabaseURL: Sendable, Hashable {
  enum Target: Sendable, Hashable {
    /// The path as written: absolute, or relative to the working folder.
    case sqlite(path: String)
    /// The whole URL, which libpq parses; it may contain a password.
    case postgreSQL(url: String)
  }

  let target: Target

  package init(sqlitePath path: String) {
    target = .sqlite(path: path)
  }

  /// Parses a URL; throws ``DatabaseError/Code/invalidURL``, whose text does not repeat the URL.
  package init(_ text: String) throws(DatabaseError) {
    guard let colon = text.firstIndex(of: ":") else { throw Self.unknown }
    let rest = text[text.index(after: colon)...]
    switch text[..<colon].lowercased() {
    case "sqlite": target = .sqlite(path: try Self.path(rest))
    case "postgres", "postgresql": target = .postgreSQL(url: try Self.server(text))
    default: throw Self.unknown
    }
  }

  /// The path of the SQLite file as written; nil for another engine.
  package var sqlitePath: String? {
    guard case .sqlite(let path) = target else { return nil }
    return path
  }

  private static let unknown = DatabaseError(
    .invalidURL, "must be sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME")

  /// The path after `sqlite:`. Also accepts the common spelling `sqlite:///path` for an absolute path.
  private static func path(_ rest: Substring) throws(DatabaseError) -> String {
    let path = rest.hasPrefix("//") ? rest.dropFirst(2) : rest
    guard !rest.hasPrefix("//") || path.hasPrefix("/") else {
      throw DatabaseError(
        .invalidURL,
        "has two slashes after sqlite:, which announce a host: write sqlite:PATH, or sqlite:/PATH")
    }
    guard !path.isEmpty, !path.hasSuffix("/"), !path.contains("\0") else {
      throw DatabaseError(.invalidURL, "must have the path of a file after sqlite:")
    }
    return String(path)
  }

  private static func server(_ url: String) throws(DatabaseError) -> String {
    // libpq knows the schemes in lower case only.
    let text = "postgres" + url.drop { $0 != ":" }
    let options = try PostgreSQLSettings.parse(text)
    let (authority, path) = parts(of: text)
    // libpq would take what follows an unencoded character of a password for the name of a host or a database.
    guard !text.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }), authority.count(where: { $0 == "@" }) < 2,
      !path.contains("@"), !path.contains("/")
    else { throw PostgreSQLSettings.notEncoded }
    // A Unix socket is given as an option: postgres:///name?host=/run/postgresql
    guard options["host"]?.isEmpty == false || options["hostaddr"]?.isEmpty == false else {
      throw PostgreSQLSettings.notEncoded
    }
    let ports = options["port"]?.split(separator: ",") ?? []
    guard ports.allSatisfy({ port in Int(port).map { (1...65535).contains($0) } == true }) else {
      throw DatabaseError(.invalidURL, "has a port that is no number from 1 to 65535")
    }
    return text
  }

  /// The part of a URL from `//` to the path, and the path up to the options, without their slashes.
  private static func parts(of url: String) -> (authority: Substring, path: Substring) {
    let rest = url.drop { $0 != "/" }.dropFirst(2)
    // libpq takes everything up to an "@" before the first slash for user and password.
    let slash = rest.firstIndex(of: "/")
    let path = slash.map { rest[$0...].dropFirst().prefix { $0 != "?" } } ?? ""
    return (slash.map { rest[..<$0] } ?? rest.prefix { $0 != "?" }, path)
  }
}

extension DatabaseURL: CustomStringConvertible, CustomReflectable {
  /// The URL without user, password and options.
  package var description: String {
    switch target {
    case .sqlite(let path):
      return "sqlite:\(path)"
    case .postgreSQL(let url):
      let options = (try? PostgreSQLSettings.parse(url)) ?? [:]
      let ports = options["port"]?.split(separator: ",", omittingEmptySubsequences: false) ?? []
      let hosts = (options["host"] ?? options["hostaddr"] ?? "").split(separator: ",").enumerated().map {
        let host = $1.contains(":") ? "[\($1)]" : $1.hasPrefix("/") ? "" : "\($1)"
        // One port is that of all hosts.
        let port = ports.count == 1 ? ports[0] : ports.dropFirst($0).first ?? ""
        return port.isEmpty ? host : "\(host):\(port)"
      }
      return "postgres://\(hosts.joined(separator: ","))/\(options["dbname"] ?? "")"
    }
  }

  /// Keeps the password out of dumps.
  package var customMirror: Mirror { Mirror(self, children: ["url": description]) }
}

/// Opens the database at `url`. Creates the file of an SQLite database if it does not exist.
///
/// - Throws: ``DatabaseError``.
package func openDatabase(
  url: DatabaseURL, sqlite options: SQLiteDatabase.Options = .init(), observer: DatabaseObserver? = nil
) async throws -> any Database {
  switch url.target {
  case .sqlite(let path):
    return try await SQLiteDatabase.open(path: path, options: options, observer: observer)
  case .postgreSQL(let url):
    return try await PostgreSQLDatabase.open(url: url, observer: observer)
  }
}
