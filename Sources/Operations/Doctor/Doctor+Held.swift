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
    let services = held.filter { $0.provider == "webpush" }
    let routes = Dictionary(grouping: held.filter { $0.provider != "webpush" }) {
      "\($0.provider):\($0.credential)"
    }
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
    } + (services.isEmpty ? [] : [finding(ofHeldAt: services)])
  }

  /// Strangers choose their push services: what those say is no fault.
  private func finding(ofHeldAt services: [OutcomeRecorder.Held]) -> Finding {
    let hosts = Set(services.map(\.credential))
    return .good(
      "webpush",
      """
      the deaths of \(services.map(\.count).reduce(0, +)) subscriptions are held back, because \
      \(Phrase.count(hosts.count, "push service has", "push services have")) called too many dead at once: one ends \
      when its push service says so again an hour later (push-bouncer routes list)
      """)
  }
}
