/// Does what has gathered, in rounds: at once when somebody wakes it, and twice a second for what comes due and for
/// what a node that died had taken.
package final class Worker: Sendable {
  private let pause: Duration
  private let wakeUps = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

  /// - Parameter pause: after which it looks by itself.
  package init(every pause: Duration = .milliseconds(500)) {
    self.pause = pause
  }

  /// There is something new: need not wait for the next look.
  package func wake() {
    wakeUps.continuation.yield()
  }

  /// Works until the task is cancelled.
  ///
  /// - Parameters:
  ///   - round: does as much as may be done at once; whether there may be more.
  ///   - onError: is told what a round has thrown. The next look comes all the same.
  package func run(_ round: () async throws -> Bool, onError: (any Error) -> Void) async {
    await withTaskGroup { group in
      group.addTask { await every(self.pause) { self.wake() } }
      for await _ in wakeUps.stream {
        do {
          while !Task.isCancelled, try await round() {}
        } catch {
          onError(error)
        }
      }
    }
  }
}
