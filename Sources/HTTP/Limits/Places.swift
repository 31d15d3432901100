import NIOCore
import Synchronization

/// Gives each owner so many places at a time. Who finds none waits for those of the same owner that came before.
package final class Places<Owner: Hashable & Sendable>: Sendable {
  private struct Standing {
    var taken = 0
    var waiting: CircularBuffer<(count: Int, turn: CheckedContinuation<Void, Never>)> = []
  }

  private let limit: Int
  private let standings = Mutex<[Owner: Standing]>([:])

  package init(_ limit: Int) { self.limit = limit }

  /// Takes places, at most as many as there are, which ``leave(_:of:)`` gives back.
  ///
  /// - Throws: `CancellationError` if the task was cancelled meanwhile; then nothing is taken.
  package func take(_ count: Int, of owner: Owner) async throws {
    await withCheckedContinuation { turn in
      let isTurn = standings.withLock { standings in
        var standing = standings[owner] ?? Standing()
        let fits = standing.waiting.isEmpty && standing.taken + count <= limit
        if fits { standing.taken += count } else { standing.waiting.append((count, turn)) }
        standings[owner] = standing
        return fits
      }
      if isTurn { turn.resume() }
    }
    guard Task.isCancelled else { return }
    leave(count, of: owner)
    throw CancellationError()
  }

  package func leave(_ count: Int, of owner: Owner) {
    let turns = standings.withLock { standings in
      var standing = standings[owner] ?? Standing()
      var turns: [CheckedContinuation<Void, Never>] = []
      standing.taken -= count
      while let next = standing.waiting.first, standing.taken + next.count <= limit {
        standing.taken += next.count
        turns.append(standing.waiting.removeFirst().turn)
      }
      standings[owner] = standing.taken > 0 ? standing : nil
      return turns
    }
    for turn in turns { turn.resume() }
  }
}
