import ArgumentParser
import Basics
import Foundation
import Migrations
import Operator
import Platform
import Registrations
import SQL
import Sealing
import Server
import UnixSignals
import ZulipImport

/// `migrate ...`: the import from an existing bouncer.
struct Migrate: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Imports from an existing bouncer.", subcommands: [Zulip.self])
}

extension Migrate {
  struct Zulip: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Imports servers, realms and registrations from a Zulip bouncer.",
      discussion: """
        Chat servers keep their ids and keys; only the address that they call has to lead here. The source is only read. \
        What is here already is kept; only a legacy registration is replaced if the source has a later one. The database \
        here must exist: init or serve makes it. A run can be stopped at any time: the same command imports the rest. The \
        service may run meanwhile; on SQLite its writes then wait for up to about a second.

        A folder must hold one CSV file for each table. Zulip's database writes them with:

          for t in remotezulipserver remoterealm remotepushdevice remotepushdevicetoken; do
            psql zulip -c "\\copy (SELECT * FROM zilencer_$t ORDER BY 1) TO zilencer_$t.csv CSV HEADER"; done

        These files hold keys and tokens in clear: keep them private, and remove them afterwards.
        """)

    @OptionGroup var options: GlobalOptions
    @Option(
      help: ArgumentHelp(
        "postgres://USER@HOST:PORT/NAME of Zulip's database, with the password in PGPASSWORD, or a folder of CSV files.",
        valueName: "source"))
    var from: String
    @Flag(help: "Only report what would be done.") var dryRun = false
    @Option(
      help: ArgumentHelp("A CSV file that gets the refused rows, each with the reason.", valueName: "file"))
    var rejects: String?

    static var documents: [JSONDocument] { .of(ImportReport.members) }

    func run() async throws {
      // Opened before root becomes the service's user, who may not be allowed to read it.
      let source = try openSource()
      let configuration = try options.load()
      let refused = try rejects.map { path in
        if let obstacle = FileObstacle.writing(path) {
          throw Fault(
            key: "--rejects", "names \(path), which \(obstacle.problem)",
            advice: "name a file that \(FileObstacle.user) may write")
        }
        return try PrivateFile.make(at: path)
      }
      let isComplete =
        if dryRun {
          try await rehearse(configuration) { try await importAll(from: source, refused, $0) }
        } else {
          try await Store.with(options, configuration, sqlite: .filling) { store in
            try await importAll(
              from: source, refused,
              ImportRun(database: store.database, storageKey: store.storageKey, now: store.now))
          }
        }
      if !isComplete {
        printError(dryRun ? "stopped" : "stopped: the same command imports the rest")
        throw ExitCode.failure
      }
    }

    private func openSource() throws -> ZulipSource {
      if !from.contains("://"), FileManager.default.fileExists(atPath: from),
        let obstacle = FileObstacle.listing(from)
      {
        throw Fault(obstacle, of: from, key: "--from")
      }
      do {
        return try ZulipSource(from)
      } catch {
        throw Fault("--from: \(error)")
      }
    }

    /// Runs until the end or a signal, and prints the report. Returns whether the import is complete.
    private func importAll(from source: ZulipSource, _ refused: FileHandle?, _ run: ImportRun) async throws
      -> Bool
    {
      let start = ContinuousClock.now
      let line = ProgressLine(isLong: true)
      let report: ImportReport
      do {
        report = try await untilSignal {
          try await run.run(from: source, rejects: refused) { line.show($0.text(since: start)) }
        }
      } catch let error as DatabaseError where error.code.isOfConnecting {
        guard case .database(let url) = source else { throw error }
        throw Fault(error, of: url, key: "--from")
      }
      if let rejects { printError("\(rejects): \(report.refusals) refused rows") }
      options.show(
        report, ImportReport.members,
        report.text + (dryRun ? "\n\nThis was a dry run: nothing has been written." : ""))
      return report.isComplete
    }

    /// Runs `body` on a copy of the database, or on an empty database if there is none. Creates neither a
    /// database nor a key on disk.
    private func rehearse(_ configuration: Configuration, _ body: (ImportRun) async throws -> Bool)
      async throws
      -> Bool
    {
      let url = configuration.database.url
      let key = try KeyFolder.existingStorageKey(in: configuration.keys.directory)
      let isThere = url.sqlitePath.map { FileManager.default.fileExists(atPath: $0) } ?? true
      guard let key, isThere else {
        printError(
          "there is no database here yet: this is what an empty one would get\n\(configuration.whereabouts)"
        )
        return try await ImportRun.rehearse(target: nil, storageKey: .generate(), body)
      }
      let database = try await openDatabase(url: url)
      return try await database.use {
        try await ImportRun.rehearse(
          target: try await Self.isCurrent(database, url, key) ? database : nil, storageKey: key, body)
      }
    }
  }
}

extension Migrate.Zulip {
  /// Whether the database has this version's tables and should be copied; false if it is empty.
  private static func isCurrent(_ database: any Database, _ url: DatabaseURL, _ key: StorageKey) async throws
    -> Bool
  {
    let version = try await Migrator.version(of: database)
    guard version > 0 else { return false }
    try await DatabaseCopy.checkIsWhole(database, url)
    guard version >= Schema.version else {
      throw Fault(
        "the database is of an older version of this program: start the service once, or any other command")
    }
    guard version == Schema.version else { throw Fault(DatabaseError(.newerSchema, "") as any Error) }
    guard try await StorageSeal.matches(key, in: database) ?? true else { throw StorageSeal.WrongKey() }
    return true
  }
}

/// Runs `body`, which is cancelled on SIGINT or SIGTERM.
private func untilSignal<Result: Sendable>(
  _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
  let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
  return try await withThrowingTaskGroup(of: Result?.self) { group in
    group.addTask { try await body() }
    group.addTask {
      for await _ in signals {
        printError("stopping after this batch")
        return nil
      }
      return nil
    }
    // After a signal, the work is cancelled and its result awaited. Without a signal, its result comes first.
    while let next = try await group.next() {
      group.cancelAll()
      if let result = next { return result }
    }
    throw CancellationError()
  }
}

extension ImportRun.Progress {
  fileprivate func text(since start: ContinuousClock.Instant) -> String {
    let spent = (ContinuousClock.now - start) / .seconds(1)
    let left = share > 0.005 ? ", \(Phrase.duration(spent / share * (1 - share))) left" : ""
    return "\(table.rawValue): \(Phrase.count(rows, "row")), \(Int(share * 100)) % of all\(left)"
  }
}
