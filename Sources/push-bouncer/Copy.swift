import ArgumentParser
import Foundation
import Migrations
import Operations
import SQL
import Storage
import Synchronization
import Wire

/// `copy`: from one database to another.
struct Copy: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Copies everything from one database to another, from SQLite to PostgreSQL or back.",
    discussion: """
      The service must not run meanwhile. A copy that was stopped goes on where it was when the same command is \
      started again. At the end both databases are compared row by row. Keep the Keys folder as it is: its \
      storage.key opens what is sealed in the new database, too.
      """)

  @OptionGroup var options: GlobalOptions
  @Option(help: "The database that the service has used so far, written as in database.url.") var from: String
  @Option(help: "The database that the service is to use; it must be empty.") var to: String

  func run() async throws {
    let reports = try await with(from, "--from") { source in
      try await with(to, "--to") { target in
        let meter = Meter()
        return try await DatabaseCopy(from: source, to: target).run { meter.show($0, $1) }
      }
    }
    let tables = reports.map { report -> JSON in
      [
        "table": .string(report.table), "copied": .integer(Int64(report.copied)),
        "rows": .integer(Int64(report.rows)),
      ]
    }
    options.show(
      ["tables": .array(tables)],
      reports.map { "\($0.table): \($0.rows) rows, \($0.copied) of them copied now" }.joined(separator: "\n")
        + "\n\nBoth are the same. Set database.url to the new one and start the service.")
  }

  private func with<Result>(
    _ text: String, _ option: String, _ body: (any Database) async throws -> Result
  ) async throws -> Result {
    let url: DatabaseURL
    do {
      url = try DatabaseURL(text)
    } catch {
      throw ValidationError("\(option): \(error.message)")
    }
    if option == "--from", let path = url.sqlitePath, !FileManager.default.fileExists(atPath: path) {
      throw CommandError("\(option): there is no \(path)")
    }
    let database = try await openDatabase(url: url)
    do {
      try await Schema.migrate(database)
      let result = try await body(database)
      await database.close()
      return result
    } catch {
      await database.close()
      throw error
    }
  }

  /// Shows the progress, now and then.
  private final class Meter: Sendable {
    private let last = Mutex<ContinuousClock.Instant?>(nil)

    func show(_ table: String, _ rows: Int) {
      let isDue = last.withLock { last in
        guard last.map({ .now - $0 > .seconds(1) }) ?? false else {
          if last == nil { last = .now }
          return false
        }
        last = .now
        return true
      }
      if isDue { note(rows > 0 ? "\(table): \(rows)" : table) }
    }
  }
}
