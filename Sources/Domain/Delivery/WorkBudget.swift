package import Basics
package import HTTPClient
import Providers
import Synchronization

/// Limits the memory of notifications from the time they are read until their request is answered: of what was
/// parsed, and of what is sent or waits for the end of the request. Owners share it (``FairShare``).
///
/// The bytes of request bodies do not bound it: a notification of 100 bytes takes forty times as much on its
/// way, and one of 3 KB may be for hundreds of devices.
package final class WorkBudget: Sendable {
  /// Thrown if there is no room for the owner at present.
  package struct Exceeded: Error, Hashable {}

  fileprivate struct State {
    var total = 0
    var owners: [Owner: Int] = [:]
  }

  fileprivate let limit: Int
  fileprivate let state = Mutex(State())

  /// - Parameter limit: maximum memory in bytes.
  package init(limit: Int) { self.limit = limit }

  /// Bytes reserved at present.
  package var bytes: Int { state.withLock { $0.total } }

  /// Reserves memory, which the caller releases.
  package func charge(_ bytes: Int, to owner: Owner) throws(Exceeded) -> Charge {
    let fits = state.withLock { state in
      let own = state.owners[owner] ?? 0
      guard bytes <= FairShare.room(own: own, total: state.total, limit: limit) else { return false }
      state.total += bytes
      state.owners[owner] = own + bytes
      return true
    }
    guard fits else { throw Exceeded() }
    return Charge(budget: self, owner: owner, bytes: bytes)
  }

  /// Reserved memory.
  package struct Charge: Sendable {
    fileprivate let budget: WorkBudget
    fileprivate let owner: Owner
    fileprivate let bytes: Int

    /// Frees the memory. Call it once.
    package func release() {
      budget.state.withLock { state in
        state.total -= bytes
        let rest = (state.owners[owner] ?? 0) - bytes
        state.owners[owner] = rest > 0 ? rest : nil
      }
    }
  }
}

extension RegisteredPush {
  /// Bytes of memory that it takes on its way, at most: its task, its request with the payload, and its entry in the
  /// outbox if it gets one.
  package var memory: Int { 8192 + 2 * push.payloadBytes }
}
