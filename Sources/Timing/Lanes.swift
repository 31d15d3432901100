internal import Synchronization

/// Works in lanes that do not wait for each other, in each of them one round at a time.
package final class Lanes<Lane: Hashable & Sendable>: Sendable {
  private let pause: Duration
  private let busy = Mutex<Set<Lane>>([])

  /// - Parameter pause: after which it looks again which lanes have something to do.
  package init(every pause: Duration) {
    self.pause = pause
  }

  /// Works until the task is cancelled, and returns when the rounds that are under way have ended.
  ///
  /// - Parameters:
  ///   - lanes: those with something to do. One that is being worked in is left alone.
  ///   - round: does as much as may be done at once in a lane; whether there may be more.
  package func run(
    _ lanes: () async -> [Lane], round: @escaping @Sendable (Lane) async -> Bool
  ) async {
    await withDiscardingTaskGroup { group in
      await every(pause) {
        for lane in await lanes() where busy.withLock({ $0.insert(lane).inserted }) {
          group.addTask {
            while !Task.isCancelled, await round(lane) {}
            self.busy.withLock { _ = $0.remove(lane) }
          }
        }
      }
    }
  }
}
