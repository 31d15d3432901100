import Foundation
import SQL

/// A node's connection to the database: it may be slow, may break before or after a commit, and ends with the
/// node.
///
/// Unchecked: the world has one thread.
final class NodeDatabase: Database, @unchecked Sendable {
  let engine = DatabaseEngine.sqlite
  private let server: DatabaseServer
  private unowned let world: World
  private let life: Life

  init(_ server: DatabaseServer, world: World, life: Life) {
    (self.server, self.world, self.life) = (server, world, life)
  }

  func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await perform(kind) { connection in try work(connection) }
  }

  func query(_ statement: Statement) async throws -> [Row] {
    var rows: [Row] = []
    try await perform(.read) { rows = try $0.query(statement) }
    return rows
  }

  func rowsAtOnce(_ statement: Statement) -> [Row]? {
    guard life.isAlive, !life.isCut, world.database.isWell else { return nil }
    var rows: [Row]?
    try? server.transaction(.read) { rows = try world.standIn.connection($0, world).query(statement) }
    return rows
  }

  func execute(_ statement: Statement) async throws -> [Row] {
    var rows: [Row] = []
    try await perform(.write) { rows = try $0.query(statement) }
    return rows
  }

  func close() async {}

  private func perform(_ kind: TransactionKind, _ work: (any Connection) throws -> Void) async throws {
    await world.database.wayThere()
    try check()
    if kind == .write, world.database.isFull {
      life.disturbances.append(world.time)
      throw DatabaseError(.full, "no room left")
    }
    try server.transaction(kind) { connection in try work(world.standIn.connection(connection, world)) }
    if kind == .write, world.database.losesAnswer() {
      world.ledger.lostCommitAt = world.time
      life.disturbances.append(world.time)
      throw DatabaseError(.connectionLost, "the connection broke after the commit")
    }
    await world.database.wayThere()
    do {
      try check()
    } catch {
      // The transaction is committed, but the node gets an error.
      if kind == .write { world.ledger.lostCommitAt = world.time }
      throw error
    }
  }

  private func check() throws {
    guard life.isAlive else { throw DatabaseError(.closed, "the node is dead") }
    if life.isCut || world.database.isAway {
      life.disturbances.append(world.time)
      throw DatabaseError(.connectionLost, "the database cannot be reached")
    }
  }
}

/// The current faults of the database, for all nodes.
///
/// Unchecked: the world has one thread.
final class DatabaseWeather: @unchecked Sendable {
  var isAway = false
  var isFull = false
  var isSlow = false
  /// The percentage of commits whose answers are lost.
  var lostAnswers = 0
  private var random: WorldRandom

  init(seed: UInt64) { random = WorldRandom(seed: seed, "database") }

  var isWell: Bool { !isAway && !isFull && !isSlow && lostAnswers == 0 }

  func losesAnswer() -> Bool { lostAnswers > 0 && random.int(in: 1...100) <= lostAnswers }

  func wayThere() async {
    if isSlow {
      try? await Task.sleep(for: .milliseconds(random.int(in: 50...1500)))
    } else if random.chance(0.1) {
      try? await Task.sleep(for: .milliseconds(random.int(in: 1...20)))
    } else {
      await Task.yield()
    }
  }
}
