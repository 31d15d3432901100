import NIOCore
import NIOPosix
import Synchronization

/// The bytes of bodies that are being read or held: a limit in all, and a quarter of it for each source, but at least one
/// of the largest bodies. A body beyond that is refused.
///
/// When there is no room left, a new body takes the room of one that is still arriving, from the source with most, so
/// that nobody keeps others out by sending much and never finishing.
package final class BodyBudget: Sendable {
  fileprivate struct Body {
    enum Phase {
      case arriving, whole
      /// Its place was taken; it is counted until nothing of it is held.
      case leaving
    }

    let source: ClientAddress
    let channel: (any Channel)?
    var phase = Phase.arriving
    var bytes = 0
  }

  fileprivate struct State {
    let limit: Int
    /// Of one source.
    let share: Int
    var total = 0
    /// Of the total, what is on its way out.
    var leaving = 0
    var sources: [ClientAddress: Int] = [:]
    /// By the number of the charge.
    var bodies: [Int: Body] = [:]

    func isFull(with count: Int) -> Bool { total - leaving + count > limit }

    /// The largest arriving body of the source with most, if that has more than the new body's source would have.
    func displaceable(by own: Int) -> (number: Int, body: Body)? {
      func standing(_ body: Body) -> (Int, Int) { (sources[body.source] ?? 0, body.bytes) }
      return bodies.lazy.filter { $0.value.phase == .arriving && standing($0.value).0 > own }
        .max { standing($0.value) < standing($1.value) }.map { ($0.key, $0.value) }
    }

    /// Has bodies leave of those who have more than a source that wants to have `own`, until so many bytes fit. What
    /// has not left yet is bounded, too.
    ///
    /// - Returns: whether they fit.
    mutating func makeRoom(for count: Int, _ own: Int, _ displaced: inout [(any Channel)?]) -> Bool {
      while isFull(with: count) {
        guard leaving < limit / 4, let (number, body) = displaceable(by: own) else { return false }
        bodies[number]?.phase = .leaving
        leaving += body.bytes
        take(from: body.source, body.bytes)
        displaced.append(body.channel)
      }
      return true
    }

    mutating func take(from source: ClientAddress, _ count: Int) {
      let rest = (sources[source] ?? 0) - count
      sources[source] = rest > 0 ? rest : nil
    }
  }

  fileprivate let state: Mutex<State>
  fileprivate let charges = Atomic(0)

  /// - Parameters:
  ///   - limit: bytes in all.
  ///   - largest: the largest body that anybody may send.
  package init(limit: Int, largest: Int) {
    state = Mutex(State(limit: max(limit, largest), share: max(limit / 4, largest)))
  }

  /// There is no room for a body now.
  package struct Exceeded: Error {}

  /// The bytes that are counted now.
  package var bytes: Int { state.withLock { $0.total } }
}

/// What the body of one request has of a budget.
final class BodyCharge: Sendable {
  private let budget: BodyBudget
  private let number: Int
  private let source: ClientAddress
  private let channel: (any Channel)?

  /// - Parameter channel: the connection that is closed if others need the room.
  init(_ budget: BodyBudget, source: ClientAddress, channel: (any Channel)? = nil) {
    self.budget = budget
    number = budget.charges.wrappingAdd(1, ordering: .relaxed).newValue
    self.source = source
    self.channel = channel
  }

  /// Whether there is room for a body that is said to be so long. It takes the room only as it comes: saying so
  /// costs nothing.
  func begin(expecting count: Int) throws(BodyBudget.Exceeded) {
    let fits = budget.state.withLock { state in
      let own = (state.sources[source] ?? 0) + count
      return own <= state.share && (!state.isFull(with: count) || state.displaceable(by: own) != nil)
    }
    guard fits else { throw BodyBudget.Exceeded() }
  }

  /// So many bytes more have come.
  ///
  /// - Parameter isAll: whether they are the whole body, so that nobody takes its place any more.
  func add(_ count: Int, isAll: Bool = false) throws(BodyBudget.Exceeded) {
    let (fits, displaced) = budget.state.withLock { state -> (Bool, [(any Channel)?]) in
      var displaced: [(any Channel)?] = []
      var body = state.bodies[number] ?? .init(source: source, channel: channel)
      let own = (state.sources[source] ?? 0) + count
      guard body.phase == .arriving, own <= state.share, state.makeRoom(for: count, own, &displaced) else {
        return (false, displaced)
      }
      body.bytes += count
      if isAll { body.phase = .whole }
      state.bodies[number] = body
      state.total += count
      state.sources[source] = own
      return (true, displaced)
    }
    for channel in displaced { channel?.close(promise: nil) }
    guard fits else { throw BodyBudget.Exceeded() }
  }

  /// All of it has come: nobody takes its place any more.
  func end() {
    budget.state.withLock { state in
      if state.bodies[number]?.phase == .arriving { state.bodies[number]?.phase = .whole }
    }
  }

  /// Nothing of the body is held any more.
  func release() {
    budget.state.withLock { state in
      guard let body = state.bodies.removeValue(forKey: number) else { return }
      state.total -= body.bytes
      if body.phase == .leaving {
        state.leaving -= body.bytes
      } else {
        state.take(from: body.source, body.bytes)
      }
    }
  }
}

/// Reads what is long on a thread of its own, one at a time: on the event loop, everybody else's requests would wait for
/// it.
package enum LongRead {
  /// What is short is read in a few milliseconds.
  private static let short = 128 << 10

  private static let thread = {
    let thread = NIOThreadPool(numberOfThreads: 1)
    thread.start()
    return thread
  }()

  /// Reads so many bytes.
  package static func of<Value: Sendable>(
    _ bytes: Int, _ read: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    guard bytes > short else { return try read() }
    return try await thread.runIfActive(read)
  }
}
