internal import Foundation
package import Logging
internal import Registrations
package import SQL
package import Sealing
internal import Timing

/// Keeps a process's storage key as the folder and the database have it, while `keys rotate-storage` changes it, and
/// says in the database which keys the process has.
package struct StorageKeyFollower: Sendable {
  /// How many looks at the file and the database are between two signs of life.
  private static let beat = 5

  private let directory: String
  private let database: any Database
  private let storageKey: StorageKey
  private let writes: Duration
  private let logger: Logger?
  private let process = UUID()

  /// - Parameters:
  ///   - writes: for how long writes may be under way that were sealed before.
  ///   - logger: nil in a command, which is over before anybody would read it.
  package init(
    directory: String, database: any Database, storageKey: StorageKey,
    writes: Duration = StorageKeyRotation.Waits().writes, logger: Logger? = nil
  ) {
    self.directory = directory
    self.database = database
    self.storageKey = storageKey
    self.writes = writes
    self.logger = logger
  }

  /// Says which keys this process has, before it seals anything.
  ///
  /// - Throws: `StorageSeal.WrongKey`, or the database's own error.
  package func begin() async throws {
    let holders = StorageKeyHolders(database)
    if try await holders.join(process, storageKey) { return }
    // The key may have changed since the file was read.
    guard storageKey.take(try KeyFolder.storageKeyFile(in: directory)),
      try await holders.join(process, storageKey)
    else { throw StorageSeal.WrongKey() }
  }

  /// Follows until its task is cancelled.
  package func run() async {
    var state = State()
    await every(.seconds(2)) { await step(&state) }
    try? await StorageKeyHolders(database).withdraw(process)
  }

  /// What one look leaves to the next.
  struct State {
    var file: FileAttributes?
    var told: [[UInt8]] = []
    var looks = 0
    /// What is wrong, which is told once.
    var problem: String?
    /// When it was found that the key had changed without this process.
    var leftBehind: ContinuousClock.Instant?
    /// Whether what it had sealed has been sealed anew since.
    var isMadeUp = false
  }

  func step(_ state: inout State) async {
    var problem: String?
    do {
      problem = try await look(&state)
      let keys = [storageKey.presentID] + storageKey.ids
      if keys != state.told || state.looks.isMultiple(of: Self.beat) {
        try await StorageKeyHolders(database).announce(process, storageKey)
        state.told = keys
      }
      try await makeUp(&state)
    } catch let error as DatabaseError {
      // It is back before long, or others say so.
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

  /// - Returns: what is wrong.
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

  /// Seals anew what only this process can open: at once, and when nothing can come after that was sealed before.
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
