/// What `body` returns or throws; nil if it takes longer. It is cancelled then, as it is with the caller, and waited
/// for: what does not heed that is not cut short, see `Task.value(within:)`. Where there is no time it is not begun.
package func withTimeout<Result: Sendable>(
  _ limit: Duration, _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result? {
  guard limit > .zero else { return nil }
  return try await withThrowingTaskGroup(of: Result?.self) { group in
    group.addTask { try await body() }
    group.addTask {
      try? await Task.sleep(for: limit)
      return nil
    }
    defer { group.cancelAll() }
    for try await result in group {
      if let result { return result }
      // Else the caller is cancelled, and `body` with it: it says what comes of that.
      if !Task.isCancelled { break }
    }
    return nil
  }
}

extension Task where Failure == Never {
  /// The result; nil if it takes longer or the caller is cancelled. The task goes on then.
  package func value(within limit: Duration) async -> Success? {
    let (results, continuation) = AsyncStream.makeStream(of: Success.self)
    Task<Void, Never> {
      continuation.yield(await value)
      continuation.finish()
    }
    let timing = Task<Void, Never> {
      try? await Task<Never, Never>.sleep(for: limit)
      continuation.finish()
    }
    defer { timing.cancel() }
    for await result in results { return result }
    return nil
  }
}
