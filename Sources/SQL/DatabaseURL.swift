import Foundation

/// Where the database is: `sqlite:path` or `postgres://user:password@host:port/name?sslmode=...`.
package struct DatabaseURL: Sendable, Hashable {
  enum Target: Sendable, Hashable {
    /// A file, its path as written: relative to the working folder, or absolute.
    case sqlite(path: String)
    /// A server. The whole URL, which libpq reads itself; it may hold a password.
    case postgreSQL(url: String)
  }

  let target: Target

  /// The database in the SQLite file at `path`.
  package init(sqlitePath path: String) {
    target = .sqlite(path: path)
  }

  /// Reads a URL; throws ``DatabaseError/Code/invalidURL``, whose text does not repeat it.
  package init(_ text: String) throws(DatabaseError) {
    guard let colon = text.firstIndex(of: ":") else { throw Self.unknown }
    let rest = text[text.index(after: colon)...]
    switch text[..<colon].lowercased() {
    case "sqlite": target = .sqlite(path: try Self.path(rest))
    case "postgres", "postgresql": target = .postgreSQL(url: try Self.server(text))
    default: throw Self.unknown
    }
  }

  /// The path of the SQLite file as written, or nil for another engine.
  package var sqlitePath: String? {
    guard case .sqlite(let path) = target else { return nil }
    return path
  }

  private static let unknown = DatabaseError(
    .invalidURL, "wants sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME")

  /// What follows `sqlite:`. Many write an absolute path as `sqlite:///path`.
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
    // A socket in the file system is an option: postgres:///name?host=/run/postgresql
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

  /// Nothing that a dump could show of a password.
  package var customMirror: Mirror { Mirror(self, children: ["url": description]) }
}

/// Opens the database at `url`; creates the file of an SQLite database that is not there.
///
/// - Throws: ``DatabaseError``: why it could not be opened.
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
