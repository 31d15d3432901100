import Basics
import Foundation
import Platform
package import Registrations
package import SQL
import Sealing
import Synchronization

/// Replaces the key in `storage.key` while no other process uses the database.
///
/// The new key is in `storage.key.new` until everything is sealed with it. A mark in the database names it
/// meanwhile, so that no other process begins. File and mark record the progress, so an interrupted rotation
/// is resumed at any step. The key for hashes does not change.
package struct StorageKeyRotation: Sendable {
  /// The time between two reports of the progress.
  private static let interval = Duration.seconds(2)

  private let directory: String
  private let database: any Database
  private let nodes: Nodes
  private let timeout: Duration
  private let silence: Duration
  private let report: @Sendable (String) -> Void

  /// - Parameters:
  ///   - directory: the key folder.
  ///   - timeout: how long to wait for the end of other processes.
  ///   - silence: a process without a heartbeat for this long counts as dead.
  ///   - report: is called with each step, in sentences.
  package init(
    directory: String, database: any Database, timeout: Duration, silence: Duration = Nodes.watch,
    report: @escaping @Sendable (String) -> Void
  ) {
    self.directory = directory
    self.database = database
    self.timeout = timeout
    self.silence = silence
    self.report = report
    nodes = Nodes(database: database)
  }

  /// Runs or resumes the rotation.
  ///
  /// - Returns: what this run has sealed anew.
  /// - Throws: `StorageSeal.WrongKey`, ``Fault`` if another process uses the database, or the database's own error.
  package func run() async throws -> Resealing.Count {
    let file = try KeyFolder.storageKeyFile(in: directory)
    let current = StorageKey(file)
    let next = try await StorageSeal.nextID(of: database)
    if next == current.id {
      report("everything is already sealed with the new key in storage.key")
      try await finish(current)
      return Resealing.Count()
    }
    let new = StorageKey(try nextFile(after: file, next))
    let isFirst = try await database.write { connection in
      let isFirst = try StorageSeal.begin(from: current, to: new, on: connection)
      try nodes.add(isServing: false, on: connection)
      return isFirst
    }
    if !isFirst { report("continuing with the new key in storage.key.new") }
    async let _: Void = sendHeartbeats()
    do {
      try await waitForOthers()
    } catch {
      try? await database.write { connection in
        if isFirst { try StorageSeal.cancel(on: connection) }
      }
      try? await nodes.leave()
      throw error
    }
    let count = try await reseal(from: current, to: new)
    try KeyFolder.replaceStorageKey(in: directory)
    try await finish(new)
    try await nodes.leave()
    return count
  }

  /// - Parameter next: the id of the key that the database is being sealed with.
  private func nextFile(after file: StorageKeyFile, _ next: [UInt8]?) throws -> StorageKeyFile {
    guard let next else { return try KeyFolder.nextStorageKeyFile(after: file, in: directory) }
    guard let new = try KeyFolder.existingNextStorageKeyFile(in: directory), StorageKey(new).id == next else {
      throw Fault(
        source: KeyFolder.nextStorageKeyPath(in: directory),
        "is missing or is another key, and part of the database is sealed with it",
        advice: "run this on the machine where the rotation began, or copy that file from there")
    }
    return new
  }

  /// Heartbeats, by which another rotation notices this one.
  private func sendHeartbeats() async {
    while (try? await Task.sleep(for: Nodes.interval)) != nil { _ = try? await nodes.touch(isServing: false) }
  }

  /// Waits until this is the only process that uses the database. None begins any more.
  private func waitForOthers() async throws {
    let start = ContinuousClock.now
    let end = Date() + timeout / .seconds(1)
    var sightings: Nodes.Sightings = [:]
    var isReported = false
    while true {
      let others = try await nodes.living(within: silence, &sightings).filter { $0.id != nodes.own }
      guard let other = others.first else { return }
      let who =
        "push-bouncer \(other.version) on \(other.hostname), started \(Phrase.age(other.startedAt)), uses the database"
      if !isReported {
        report("\(who), unless it was killed: waiting until \(end.formatted(.iso8601)) for it to end")
        isReported = true
      }
      guard ContinuousClock.now - start < timeout else {
        throw Fault(
          others.count == 1
            ? who : "\(who), and so \(others.count == 2 ? "does" : "do") \(others.count - 1) more",
          advice:
            "stop every node, then run this again (sudo systemctl stop push-bouncer.service, not its socket)")
      }
      try await Task.sleep(for: .milliseconds(200))
    }
  }

  private func reseal(from old: StorageKey, to new: StorageKey) async throws -> Resealing.Count {
    let latest = Mutex(ContinuousClock.now)
    return try await Resealing(database: database, from: old, to: new).run { done, all in
      let isDue = latest.withLock { latest in
        guard done == all || ContinuousClock.now - latest >= Self.interval else { return false }
        latest = .now
        return true
      }
      if isDue { report("\(done) of \(Phrase.count(all, "value")) sealed with the new key") }
    }
  }

  private func finish(_ new: StorageKey) async throws {
    try await database.write { try StorageSeal.finish(new, on: $0) }
  }
}
