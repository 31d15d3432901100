import Basics
package import SQL

extension Nodes {
  /// Processes that could not go on after the migration, if they are alive.
  private struct Older: Error {
    let nodes: [Node]
    let migration: Migration
  }

  /// Applies the missing migrations, unless an older process is alive that could not go on afterwards. Finding that out may
  /// take as long as `duration`.
  ///
  /// - Parameter waiting: called before the rows of such processes are watched, with their number.
  /// - Throws: ``Fault``, which names such a process; ``DatabaseError``, as ``Migrator`` does.
  package func migrate(
    _ migrations: [Migration], watching duration: Duration = watch, waiting: (_ rows: Int) -> Void
  ) async throws {
    var killed: Set<Node> = []
    while true {
      do {
        try await Migrator.migrate(database, migrations) { [killed] migration, connection in
          // Every program knows the first one, which makes the table.
          guard migration.oldest > 1 else { return }
          let nodes = try all(on: connection).filter {
            $0.schema < migration.oldest && !killed.contains($0)
          }
          if !nodes.isEmpty { throw Older(nodes: nodes, migration: migration) }
        }
        return
      } catch let older as Older {
        let alive = try await alive(
          watching: duration, olderThan: older.migration.oldest, waiting: waiting)
        if let node = alive.first { throw Fault(node, older: older.migration) }
        killed.formUnion(older.nodes)
      }
    }
  }
}

extension Fault {
  fileprivate init(_ node: Nodes.Node, older migration: Migration) {
    let knows =
      migration.oldest < migration.number
      ? "upgrade that node first to a release that knows migration \(migration.oldest), or stop it"
      : "stop that node"
    self.init(
      """
      push-bouncer \(node.version) on \(node.hostname), started \(Phrase.age(node.startedAt)), uses the database, and \
      could not go on once this program has changed it (migration \(migration.number), \(migration.name))
      """, advice: "\(knows), then start this one again")
  }
}
