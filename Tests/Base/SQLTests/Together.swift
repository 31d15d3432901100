@testable import SQL

extension Database {
  /// Runs `body` while a write is open that has done `first`, until `body` opens the gate or ends.
  func behindGate<Output>(
    after first: @escaping @Sendable (any Connection) throws -> Void = { _ in },
    _ body: (_ open: @escaping @Sendable () -> Void) async throws -> Output
  ) async throws -> Output {
    let entered = AsyncStream<Void>.makeStream()
    let gate = Gate()
    async let holder: Void = write { connection in
      try first(connection)
      entered.continuation.finish()
      gate.wait()
    }
    for await _ in entered.stream {}
    let output: Output
    do {
      output = try await body { gate.open() }
    } catch {
      gate.open()
      throw error
    }
    gate.open()
    try await holder
    return output
  }

  /// Does `count` writes at once, in one group if the engine groups writes, and returns their results.
  func atOnce<Output: Sendable>(
    _ count: Int, _ work: @escaping @Sendable (Int) async throws -> Output
  ) async throws -> [Result<Output, any Error>] {
    if let database = self as? SQLiteDatabase { return try await database.together(count, work) }
    return await results(count, work)
  }

  /// Does `count` writes at once and returns their results.
  func results<Output: Sendable>(
    _ count: Int, _ work: @escaping @Sendable (Int) async throws -> Output, meanwhile: () async -> Void = {}
  ) async -> [Result<Output, any Error>] {
    await withTaskGroup(of: (Int, Result<Output, any Error>).self) { group in
      for index in 0..<count {
        group.addTask {
          do { return (index, .success(try await work(index))) } catch { return (index, .failure(error)) }
        }
      }
      await meanwhile()
      let results = await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
      return (0..<count).compactMap { results[$0] }
    }
  }
}

extension SQLiteDatabase {
  /// Does `count` writes that gather behind a waiting one, so that they form one group, and returns their
  /// results.
  func together<Output: Sendable>(
    _ count: Int, _ work: @escaping @Sendable (Int) async throws -> Output
  ) async throws -> [Result<Output, any Error>] {
    try await behindGate { open in
      await results(count, work) {
        while writer.waitingCount < count { await Task.yield() }
        open()
      }
    }
  }
}

extension Result {
  /// The code of the ``DatabaseError`` that it is, or nil.
  var databaseCode: DatabaseError.Code? {
    if case .failure(let error as DatabaseError) = self { error.code } else { nil }
  }
}
