internal import Foundation
internal import Migrations
internal import Registrations
internal import SQL

extension Doctor {
  /// What is held back because a provider has called too many tokens dead; a finding per credential.
  func heldFindings() async -> [Finding] {
    let url = configuration.database.url
    if let path = url.sqlitePath, !FileManager.default.fileExists(atPath: path) { return [] }
    // A database that cannot be read is a finding of its own.
    guard let database = try? await openDatabase(url: url) else { return [] }
    var held: [OutcomeRecorder.Held] = []
    if (try? await Migrator.version(of: database)) == Schema.version {
      held = (try? await OutcomeRecorder(database: database, now: now).held()) ?? []
    }
    await database.close()
    let routes = Dictionary(grouping: held) { "\($0.provider):\($0.credential)" }
    return routes.sorted { $0.key < $1.key }.map { name, held in
      let (count, since) = (held.map(\.count).reduce(0, +), held.map(\.since).min() ?? now())
      return .bad(
        name,
        """
        the deaths of \(count) registrations are held back, because the provider has called too many tokens dead at \
        once, since \(since.formatted(.iso8601))
        """,
        advice: """
          wait: one ends when the provider says so again an hour later, and is forgotten after a week. If you know \
          that they are dead: push-bouncer routes trust \(name)
          """)
    }
  }
}
