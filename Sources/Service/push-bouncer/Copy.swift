import ArgumentParser
import Basics
import Foundation
import HTTP
import Migrations
import Platform
import Registrations
import SQL

/// `copy`: copies one database to another.
struct Copy: AsyncParsableCommand, PrintsDocument {
  static let configuration = CommandConfiguration(
    abstract: "Copies everything from one database to another, from SQLite to PostgreSQL or back.",
    discussion: """
      The service must not run meanwhile: copy refuses if one does. A copy that was stopped continues when the same \
      command is run again; until it has ended, serve and all commands refuse its target. At the end both databases are compared row by row. Keep the Keys folder as it is: the new \
      database needs the same storage.key.
      """)

  @OptionGroup var options: GlobalOptions
  @Option(
    help: ArgumentHelp(
      "The database that the service has used so far, written as in database.url.", valueName: "url"))
  var from: String
  @Option(
    help: ArgumentHelp(
      "The database that the service is to use; it must be empty or not exist yet.", valueName: "url"))
  var to: String

  static var documents: [JSONDocument] { .of(document) }

  private static var document: [JSONMember<[DatabaseCopy.Report]>] {
    [.list("tables", of: columns.members()) { $0 }]
  }

  private static var columns: [ReportColumn<DatabaseCopy.Report>] {
    [
      .text("table", "TABLE") { $0.table },
      .number("rows", "ROWS", "rows that both databases have") { Int64($0.rows) },
      .number("copied", "COPIED NOW", "those that this run has copied") { Int64($0.copied) },
    ]
  }

  func run() async throws {
    let from = try url(from, "--from")
    let to = try url(to, "--to")
    try FileOwner.become(ofWaysTo: [from, to].compactMap(\.sqlitePath))
    let reports = try await with(from, "--from") { source in
      try await with(to, "--to") { target in
        let sides = [("--from", Nodes(database: source)), ("--to", Nodes(database: target))]
        var known: [[Nodes.Node]] = []
        for (option, nodes) in sides { known.append(try await silent(nodes, option)) }
        let line = ProgressLine()
        return try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { table, rows in
          line.show(rows > 0 ? "\(table): \(Phrase.count(rows, "row"))" : table)
        } approve: {
          // A process that has started in the meantime may have written rows that were not copied.
          for ((option, nodes), before) in zip(sides, known) {
            if let node = try await nodes.serving().first(where: { !before.contains($0) }) {
              throw Self.refusal(node, option, "was started meanwhile")
            }
          }
        }
      }
    }
    options.show(reports, Self.document) { page in
      let rows = reports.map(\.rows).reduce(0, +)
      page.add(
        "\(Phrase.count(rows, "row")): both databases are the same. Set database.url to the new one and start the service."
      )
      guard rows > 0 else { return }
      page.add()
      page.add(reports.filter { $0.rows > 0 }.table(Self.columns))
    }
  }

  /// Throws if a process serves from the database.
  ///
  /// - Returns: the rows of nodes that were killed.
  private func silent(_ nodes: Nodes, _ option: String) async throws -> [Nodes.Node] {
    let alive = try await nodes.alive { count in
      watched(count, option)
    }
    if let node = alive.first { throw Self.refusal(node, option, "serves with it") }
    return try await nodes.serving()
  }

  private func watched(_ count: Int, _ option: String) {
    printError(
      """
      \(Phrase.count(count, "node")) of the \(option) database did not stop cleanly, or still \
      \(count == 1 ? "serves" : "serve"): watching for up to \(Int(Nodes.watch / .seconds(1))) s
      """)
  }

  private static func refusal(_ node: Nodes.Node, _ option: String, _ verb: String) -> Fault {
    Fault(
      """
      the \(option) database is in use: the node on \(node.hostname), started \(Phrase.age(node.startedAt)), \(verb). \
      Stop every node, then run this command again
      """)
  }

  private func url(_ text: String, _ option: String) throws -> DatabaseURL {
    do {
      return try DatabaseURL(text)
    } catch {
      throw ValidationError("\(option) \(error.message)")
    }
  }

  private func with<Result>(
    _ url: DatabaseURL, _ option: String, _ body: (any Database) async throws -> Result
  ) async throws -> Result {
    if option == "--from", let path = url.sqlitePath, !FileManager.default.fileExists(atPath: path) {
      throw Fault("\(option): there is no \(URL(fileURLWithPath: path).path)")
    }
    let database: any Database
    do { database = try await openDatabase(url: url) } catch let error as DatabaseError {
      throw Fault(error, of: url, key: option)
    }
    return try await database.use {
      do {
        if option == "--from" {
          guard try await Migrator.version(of: database) > 0 else {
            throw Fault("\(option): \(url) is not a database of push-bouncer")
          }
          try await DatabaseCopy.checkIsWhole(database, url, key: option)
        }
        // Tables of a newer program would be left behind.
        guard try await Migrator.version(of: database) <= Schema.version else {
          throw DatabaseError(.newerSchema, "")
        }
        try await Nodes(database: database).migrate(Schema.migrations(for: database.engine)) {
          watched($0, option)
        }
      } catch let error as DatabaseError {
        throw Fault(error, of: url, key: option)
      }
      return try await body(database)
    }
  }
}

extension Database {
  /// Runs `body`, and closes the database afterwards.
  func use<Result>(_ body: () async throws -> Result) async throws -> Result {
    let result: Result
    do { result = try await body() } catch {
      await close()
      throw error
    }
    await close()
    return result
  }
}
