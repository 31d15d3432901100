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
    .invalidURL, "wants sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME")

  /// The path after `sqlite:`. Also accepts the common spelling `sqlite:///path` for an absolute path.
  private static func path(_ rest: Substring) throws(DatabaseError) -> String {
    let path = rest.hasPrefix("//") ? rest.dropFirst(2) : rest
    guard !rest.hasPrefix("//") || path.hasPrefix("/") else {
      throw DatabaseError(
        .invalidURL,
        "has two slashes after sqlite:, which announce a host: write sqlite:PATH, or sqlite:/PATH")
    }
    guard !path.isEmpty, !path.hasSuffix("/"), !path.contains("\0") else {
      throw DatabaseError(.invalidURL, "wants the path of a file after sqlite:")
    }
    return String(path)
  }

  private static func server(_ text: String) throws(DatabaseError) -> String {
    let parts = URLComponents(string: text, encodingInvalidCharacters: false)
    // A Unix socket is given as an option: postgres:///name?host=/run/postgresql
    let hosts = [parts?.host] + (parts?.queryItems ?? []).filter { $0.name == "host" }.map(\.value)
    guard hosts.contains(where: { $0?.isEmpty == false }) else { throw unknown }
    return text
  }
}

extension DatabaseURL: CustomStringConvertible, CustomReflectable {
  /// The URL without user, password and options.
  package var description: String {
    switch target {
    case .sqlite(let path):
      return "sqlite:\(path)"
    case .postgreSQL(let url):
      var shown = URLComponents()
      let parts = URLComponents(string: url)
      shown.scheme = "postgres"
      shown.host = parts?.host
      shown.port = parts?.port
      shown.path = parts?.path ?? ""
      return shown.string ?? "postgres:"
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
