import Foundation
import Operations
import SQL
import Server

/// What a command was asked about is not there; told together with where it was looked for.
struct NotFound: Error {
  let sentence: String

  init(_ sentence: String) { self.sentence = sentence }
}

extension Store {
  /// Opens it for one command and closes it afterwards. What is not there is an error that says where it was looked for.
  ///
  /// - Parameters:
  ///   - configuration: what `options` say, if that is known already.
  ///   - making: whether a database or a key that is not there is made.
  static func with<Result>(
    _ options: GlobalOptions, _ configuration: Configuration? = nil, making: Bool = false,
    sqlite: SQLiteDatabase.Options = .init(), _ body: (Store) async throws -> Result
  ) async throws -> Result {
    let configuration = try configuration ?? options.load()
    do {
      return try await with(configuration, making: making, sqlite: sqlite, body)
    } catch let error as NotFound {
      throw CommandError("\(error.sentence)\n\(configuration.whereabouts)")
    } catch let error as BouncerKeyFiles.NotFound {
      throw CommandError("\(error)\n\(configuration.whereabouts)")
    } catch let error as Absence {
      throw CommandError("\(error)\n\(configuration.whereabouts)")
    }
  }
}

extension Configuration {
  /// Which configuration, database and keys a command uses: for whoever does not find there what they look for.
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
