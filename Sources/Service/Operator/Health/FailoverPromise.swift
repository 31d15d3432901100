import Basics
package import SQL

/// What a PostgreSQL server promises for a failover: whether what it has answered is still there when one of
/// its replicas takes over (`Documentation/Operating/HighAvailability.md`).
package enum FailoverPromise: Sendable, Hashable {
  /// There is nothing to fail over to.
  case noReplica
  /// Replicas follow, and commits wait for none of them.
  case asynchronous(replicas: Int64)
  /// A commit does not wait until a replica has written it to its disk: `synchronous_commit` is `off`, `local`
  /// or `remote_write`.
  case weak(synchronousCommit: String)
  /// A commit waits until a replica has it on its disk.
  case synchronous

  /// - Parameters:
  ///   - replicas: the number of replicas that are connected.
  ///   - synchronousNames: the setting `synchronous_standby_names`.
  ///   - synchronousCommit: the setting `synchronous_commit`, as it is for this program's connections.
  package init(replicas: Int64, synchronousNames: String, synchronousCommit: String) {
    if synchronousNames.isEmpty {
      self = replicas == 0 ? .noReplica : .asynchronous(replicas: replicas)
    } else {
      let isWeak = ["off", "local", "remote_write"].contains(synchronousCommit)
      self = isWeak ? .weak(synchronousCommit: synchronousCommit) : .synchronous
    }
  }

  /// Whether a failover loses nothing that was answered.
  package var isKept: Bool {
    switch self {
    case .noReplica, .synchronous: true
    case .asynchronous, .weak: false
    }
  }

  /// The name in `/readyz`.
  package var name: String {
    switch self {
    case .noReplica: "no_replica"
    case .asynchronous: "asynchronous"
    case .weak: "weak"
    case .synchronous: "synchronous"
    }
  }

  package var sentence: String {
    switch self {
    case .noReplica: "there is no replica that could take over"
    case .asynchronous(let replicas):
      """
      \(Phrase.count(Int(replicas), "replica")) and none synchronous: a failover may lose what was answered 200 just \
      before
      """
    case .weak(let value):
      """
      synchronous_commit = \(value): a commit does not wait for a replica's disk, so a failover may lose what was \
      answered 200 just before
      """
    case .synchronous: "a synchronous replica has what was answered 200"
    }
  }

  package var advice: String? {
    switch self {
    case .noReplica, .synchronous: nil
    case .asynchronous:
      """
      set synchronous_standby_names at the server, or accept it: phones whose registrations are lost register again when \
      their apps are opened
      """
    case .weak: "set synchronous_commit = on at the server, for this program's user or database"
    }
  }
}

extension FailoverPromise {
  /// What the server promises now; nil for SQLite.
  package init?(of database: any Database) async throws {
    guard database.engine == .postgreSQL else { return nil }
    let row = try await database.query(
      """
      SELECT (SELECT COUNT(*) FROM pg_stat_replication) AS replicas,
        current_setting('synchronous_standby_names') AS synchronous_names,
        current_setting('synchronous_commit') AS synchronous_commit
      """
    ).returned
    self.init(
      replicas: try row.int64("replicas"), synchronousNames: try row.text("synchronous_names"),
      synchronousCommit: try row.text("synchronous_commit"))
  }
}
