import Basics
import Foundation
import Operator
import SQL
import Server

extension Store {
  /// Opens the store for one command, and closes it afterwards. A missing database or key is an error that
  /// names the place that was searched.
  ///
  /// - Parameters:
  ///   - configuration: the configuration from `options`, if it has been loaded already.
  ///   - making: whether to create a missing database or key.
  static func with<Result>(
    _ options: GlobalOptions, _ configuration: Configuration? = nil, making: Bool = false,
    sqlite: SQLiteDatabase.Options = .init(), _ body: (Store) async throws -> Result
  ) async throws -> Result {
    let configuration = try configuration ?? options.load()
    return try await configuration.locating {
      try await with(configuration, making: making, sqlite: sqlite, body)
    }
  }
}

extension Configuration {
  /// Adds to an error about something that does not exist where it was looked for.
  func locating<Result>(_ body: () async throws -> Result) async throws -> Result {
    do {
      return try await body()
    } catch  where error is NotFound || error is BouncerKeyFiles.NotFound || error is Store.MissingStoreError
    {
      throw Fault("\(error)\n\(whereabouts)")
    }
  }

  /// The files of the service's user: what a command run by root accesses as that user.
  var ownFiles: [String] {
    [database.url.sqlitePath, keys.directory, "\(keys.directory)/storage.key"].compactMap(\.self)
  }

  /// The configuration, database and keys that a command uses, for a user who misses something there.
  var whereabouts: String {
    let path = { (path: String) in URL(fileURLWithPath: path).path }
    let file = self.file.map(path) ?? "none (defaults and environment)"
    let database = self.database.url.sqlitePath.map { "sqlite:\(path($0))" } ?? "\(self.database.url)"
    return """
      Configuration: \(file)
      Database: \(database)
      Keys: \(path(keys.directory))
      """
  }
}
