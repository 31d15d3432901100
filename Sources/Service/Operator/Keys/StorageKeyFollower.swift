package import Foundation
package import Logging
package import Migrations
internal import Platform
internal import Registrations
package import SQL
package import Sealing
internal import Timing

/// Keeps a process's storage key in step with the folder and the database while `keys rotate-storage`
/// replaces it, and records in the database that the process runs and which keys it has.
package struct StorageKeyFollower: Sendable {
  /// How many checks are between two heartbeats in the database.
  private static let beat = 5

  private let directory: String
  private let database: any Database
  private let storageKey: StorageKey
  private let writes: Duration
  private let nodes: Nodes
  private let logger: Logger?

  /// - Parameters:
  ///   - schema: the number of the last migration that this process knows.
  ///   - writes: the longest time that a write may take whose values were sealed before a change of keys.
  ///   - logger: nil in a command, which ends before anybody would read its log.
  package init(
    directory: String, database: any Database, storageKey: StorageKey,
    schema: Int = Schema.version, writes: Duration = StorageKeyRotation.writes,
    now: @escaping @Sendable () -> Date = { Date() },
    logger: Logger? = nil
  ) {
    self.directory = directory
    self.database = database
    self.storageKey = storageKey
    self.writes = writes
    nodes = Nodes(database: database, schema: schema, now: now)
    self.logger = logger
  }

  /// Records this process's keys, before it seals anything.
  ///
  /// - Throws: `StorageSeal.WrongKey`, ``DatabaseError/Code/newerSchema``, or the database's own error.
  package func begin() async throws {
    if try await nodes.join(storageKey) { return }
    // The key may have changed since the file was read.
    guard storageKey.take(try KeyFolder.storageKeyFile(in: directory)),
      try await nodes.join(storageKey)
    else { throw StorageSeal.WrongKey() }
  }

  /// Runs until its task is cancelled.
  ///
  /// - Parameter isServing: false in a command.
  package func run(isServing: Bool) async {
    var state = State(isServing: isServing)
    await every(.seconds(2)) { await step(&state) }
    try? await nodes.leave()
  }

  /// State kept between checks.
  struct State {
    var isServing = false
    var file: FileAttributes?
    var told: [[UInt8]] = []
    var looks = 0
    /// The current problem, which is logged once.
    var problem: String?
    /// When this process noticed that the rotation had finished without it.
    var leftBehind: ContinuousClock.Instant?
    /// Whether everything that this process had sealed with the old key has been resealed since then.
    var isMadeUp = false
  }

  func step(_ state: inout State) async {
    var problem: String?
    do {
      problem = try await look(&state)
      let keys = [storageKey.presentID] + storageKey.ids
      if keys != state.told || state.looks.isMultiple(of: Self.beat) {
        try await nodes.announce(storageKey, isServing: state.isServing)
        state.told = keys
      }
      try await makeUp(&state)
    } catch let error as DatabaseError {
      // The outage of the database usually ends soon, and other parts report it.
      logger?.debug("storage key not compared with the database", metadata: ["error": "\(error.code)"])
    } catch {
      problem = "the file cannot be read: what it held before stays in force"
    }
    state.looks += 1
    if let problem, problem != state.problem {
      logger?.error("storage.key cannot be followed", metadata: ["problem": "\(problem)"])
    }
    state.problem = problem
  }

  /// - Returns: a problem for the log.
  private func look(_ state: inout State) async throws -> String? {
    var problem: String?
    let file = FileAttributes(of: KeyFolder.storageKeyURL(in: directory).path)
    if state.leftBehind == nil, file == nil || file != state.file {
      if storageKey.take(try KeyFolder.storageKeyFile(in: directory)) {
        state.file = file
      } else {
        problem = "the file lacks the key that is used now: what it held before stays in force"
      }
    }
    if try await StorageSeal.follow(database, storageKey) { return problem }
    guard let id = try await StorageSeal.sealingID(of: database),
      storageKey.catchUp(try KeyFolder.storageKeyFile(in: directory), sealingWith: id)
    else {
      return "the database is sealed with a newer key: copy the file from where keys rotate-storage was run"
    }
    (state.leftBehind, state.isMadeUp) = (.now, false)
    logger?.warning("storage.key was changed while this process was away: what it sealed is sealed anew")
    return nil
  }

  /// Reseals what only this process can open: once at once, and once more after all writes with the old key
  /// must have ended.
  private func makeUp(_ state: inout State) async throws {
    guard let start = state.leftBehind else { return }
    let isLast = ContinuousClock.now - start >= writes
    guard isLast || !state.isMadeUp else { return }
    let resealing = Resealing(database: database, storageKey: storageKey)
    var pass = resealing.pass()
    while !pass.isAtEnd { try await resealing.step(&pass) }
    state.isMadeUp = true
    if isLast, pass.count.resealed + pass.count.missed == 0 { state.leftBehind = nil }
  }
}
