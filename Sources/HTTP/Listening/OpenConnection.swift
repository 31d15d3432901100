import NIOCore
import Synchronization

/// A connection that a listener has taken.
final class OpenConnection: Sendable {
  let channel: any Channel
  /// The source whose share it counts to; nil for a reverse proxy.
  let source: ClientAddress?
  /// Rises with each connection.
  let number: Int
  private let current = Atomic(Phase.coming)
  private let answering = Atomic(false)
  private let stalled = Atomic(false)

  enum Phase: UInt8, AtomicRepresentable {
    /// Taken, and not yet at the event loop that answers it.
    case coming
    case open
    /// Open still, but told to close.
    case leaving
  }

  init(_ channel: any Channel, source: ClientAddress?, number: Int) {
    self.channel = channel
    self.source = source
    self.number = number
  }

  /// Changed by ``OpenConnections`` only, which counts them.
  var phase: Phase {
    get { current.load(ordering: .relaxed) }
    set { current.store(newValue, ordering: .relaxed) }
  }

  /// Whether it can be closed without anybody losing an answer.
  var mayGo: Bool { phase == .open && isIdle }

  /// Whether nobody waits for an answer who would take it.
  var isIdle: Bool { !isAnswering || isStalled }

  /// Whether a whole request has arrived and waits for its answer.
  var isAnswering: Bool {
    get { answering.load(ordering: .relaxed) }
    set { answering.store(newValue, ordering: .relaxed) }
  }

  /// Whether an answer waits of which the peer takes nothing.
  var isStalled: Bool {
    get { stalled.load(ordering: .relaxed) }
    set { stalled.store(newValue, ordering: .relaxed) }
  }
}
