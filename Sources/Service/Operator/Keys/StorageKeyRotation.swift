package import Platform
package import Registrations
package import SQL
package import Sealing

/// Replaces the key in `storage.key` while services are running.
///
/// The new key is added to the file beside the old one. Then every process that uses the database has to load
/// it, the database switches to sealing with it, all existing values are resealed, and the old key is removed
/// last. An interrupted rotation can be resumed at any step, because the file and the database record the
/// progress. The key for hashes does not change.
package struct StorageKeyRotation: Sendable {
  /// Errors that the operator may have to act on.
  package enum Failure: Error, CustomStringConvertible {
    /// Another rotation is running.
    case underWay
    /// The file in the folder does not belong to this database.
    case foreignFile

    package var description: String {
      switch self {
      case .underWay: "another keys rotate-storage is under way"
      case .foreignFile: "storage.key is not the one that this database was sealed with"
      }
    }
  }

  /// The longest time that a write may take whose values were sealed with the former key.
  package static let writes = Duration.seconds(90)
  private static let interval = Duration.milliseconds(500)

  private let directory: String
  private let database: any Database
  private let storageKey: StorageKey
  private let lease: MaintenanceLease
  private let silence: Duration
  private let writes: Duration
  private let nodes: Nodes
  private let report: @Sendable (String) -> Void

  /// - Parameters:
  ///   - lease: ensures that only one rotation runs at a time.
  ///   - silence: a process without a heartbeat for this long counts as dead.
  ///   - report: is called with each step, in sentences.
  package init(
    directory: String, database: any Database, storageKey: StorageKey, lease: MaintenanceLease,
    silence: Duration = .seconds(120), writes: Duration = StorageKeyRotation.writes,
    report: @escaping @Sendable (String) -> Void
  ) {
    self.directory = directory
    self.database = database
    self.storageKey = storageKey
    self.lease = lease
    self.silence = silence
    self.writes = writes
    nodes = Nodes(database: database)
    self.report = report
  }

  /// Runs or resumes the rotation.
  ///
  /// - Returns: how many values were resealed.
  package func run() async throws -> Resealing.Count {
    try await begin()
    var file = try KeyFolder.storageKeyFile(in: directory)
    if file.ids.count == 1 {
      file = file.addingKey()
      try KeyFolder.write(file, in: directory)
      report("a new key stands beside the old one in storage.key")
    } else {
      report("going on with the new key that is in storage.key already")
    }
    guard storageKey.take(file), try await StorageSeal.follow(database, storageKey), let new = file.ids.last
    else { throw Failure.foreignFile }
    while storageKey.presentID != new {
      try await everybody("has the new key") { $0.keys.contains(new) }
      // Does nothing if a process without the new key has appeared in the meantime.
      if try await nodes.changeKey(from: storageKey.presentID, to: new) {
        report("the new key seals from now on")
      }
      // With the file in one step: this process's follower may just have taken it as it was before.
      guard let id = try await StorageSeal.sealingID(of: database),
        storageKey.catchUp(file, sealingWith: id)
      else { throw Failure.underWay }
    }
    try await everybody("seals with the new key") { $0.presentKey == new }
    let total = try await reseal()
    try await goOn()
    guard let rest = file.keepingKey(new), try KeyFolder.storageKeyFile(in: directory).ids == file.ids else {
      throw Failure.underWay
    }
    try KeyFolder.write(rest, in: directory)
    _ = storageKey.take(rest)
    return total
  }

  /// Claims the lease. A rotation that was killed holds it for up to 30 seconds more.
  private func begin() async throws {
    let start = ContinuousClock.now
    var isFirst = true
    while try await !lease.claim(for: 30) {
      if isFirst { report("waiting for the end of another one, or for half a minute after it was killed") }
      isFirst = false
      guard ContinuousClock.now - start < .seconds(45) else { throw Failure.underWay }
      try await Task.sleep(for: Self.interval)
    }
  }

  private func goOn() async throws {
    guard try await lease.claim(for: 30) else { throw Failure.underWay }
  }

  /// Reseals until no value is left and no write with the old key can still arrive.
  private func reseal() async throws -> Resealing.Count {
    let resealing = Resealing(database: database, storageKey: storageKey)
    var total = Resealing.Count()
    var isQuiet = false
    while true {
      var pass = resealing.pass()
      while !pass.isAtEnd {
        try await goOn()
        try await resealing.step(&pass)
      }
      total.resealed += pass.count.resealed
      total.unreadable = pass.count.unreadable
      guard pass.count.resealed + pass.count.missed == 0 else {
        report("\(total.resealed) values sealed anew")
        isQuiet = false
        continue
      }
      if isQuiet, try await resealing.finish(pass) { return total }
      report("waiting for what was under way")
      try await wait(writes)
      isQuiet = true
    }
  }

  private func wait(_ duration: Duration) async throws {
    let end = ContinuousClock.now + duration
    repeat {
      try await goOn()
      try await Task.sleep(for: min(Self.interval, max(.zero, end - .now)))
    } while .now < end
  }

  /// Waits until a condition holds for every process that uses the database. A process without a heartbeat
  /// for too long is ignored; if it returns, ``StorageKeyFollower`` reseals its values.
  private func everybody(_ what: String, _ condition: (Nodes.Node) -> Bool) async throws {
    var sightings: Nodes.Sightings = [:]
    var told = 0
    while true {
      try await goOn()
      let waiting = try await nodes.living(within: silence, &sightings).count { !condition($0) }
      guard waiting > 0 else { return }
      if waiting != told {
        report(
          """
          waiting until every process \(what): \(waiting) to go. On a machine with a Keys folder of its own, \
          copy storage.key there
          """)
        told = waiting
      }
      try await Task.sleep(for: Self.interval)
    }
  }
}
