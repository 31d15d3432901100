import NIOCore
import Synchronization
import Wire

/// A connection that a listener has taken.
final class OpenConnection: Sendable {
  let channel: any Channel
  /// Whose share it counts to; nil for a proxy's.
  let source: ClientAddress?
  /// Those that came earlier have a lower one.
  let number: Int
  private let current = Atomic(Phase.coming)
  private let answering = Atomic(false)

  enum Phase: UInt8, AtomicRepresentable {
    /// On its way through the event loops to whoever answers.
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

  /// Whether nobody loses an answer if it is closed.
  var mayGo: Bool { phase == .open && !isAnswering }

  /// Whether a request has arrived whole that waits for its answer.
  var isAnswering: Bool {
    get { answering.load(ordering: .relaxed) }
    set { answering.store(newValue, ordering: .relaxed) }
  }
}
