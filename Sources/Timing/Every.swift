/// Does `body` at once, and again and again with a pause after each time, until the task is cancelled.
package func every(_ pause: Duration, _ body: () async -> Void) async {
  while !Task.isCancelled {
    await body()
    try? await Task.sleep(for: pause)
  }
}

/// Does `body` at once, and again and again with a pause after each time, until the task is cancelled. What it throws
/// is told to `onError` and ends nothing.
package func every(
  _ pause: Duration, _ body: () async throws -> Void, onError: (any Error) -> Void
) async {
  await every(pause) {
    do { try await body() } catch { onError(error) }
  }
}
