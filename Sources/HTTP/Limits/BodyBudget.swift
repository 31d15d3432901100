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

  private struct State {
    var total = 0
    /// Of the total, what is on its way out.
    var leaving = 0
    var sources: [ClientAddress: Int] = [:]
    /// By their number.
    var bodies: [Int: Body] = [:]

    /// The largest arriving body of the source with most, if that has more than the new body's source would have.
    func displaceable(by own: Int) -> (number: Int, body: Body)? {
      func standing(_ body: Body) -> (Int, Int) { (sources[body.source] ?? 0, body.bytes) }
      return bodies.lazy.filter { $0.value.phase == .arriving && standing($0.value).0 > own }
        .max { standing($0.value) < standing($1.value) }.map { ($0.key, $0.value) }
    }

    mutating func take(from source: ClientAddress, _ count: Int) {
      let rest = (sources[source] ?? 0) - count
      sources[source] = rest > 0 ? rest : nil
    }
  }

  private let limit: Int
  private let share: Int
  private let state = Mutex(State())
  fileprivate let charges = Atomic(0)

  /// - Parameters:
  ///   - limit: bytes in all.
  ///   - largest: the largest body that anybody may send.
  package init(limit: Int, largest: Int) {
    self.limit = max(limit, largest)
    share = max(limit / 4, largest)
  }

  /// There is no room for a body now.
  package struct Exceeded: Error {}

  /// The bytes that are counted now.
  package var bytes: Int { state.withLock { $0.total } }

  /// Whether so many more of a source would be too many.
  fileprivate func check(_ count: Int, of source: ClientAddress) throws(Exceeded) {
    let fits = state.withLock { state in
      let own = (state.sources[source] ?? 0) + count
      return own <= share
        && (state.total - state.leaving + count <= limit || state.displaceable(by: own) != nil)
    }
    guard fits else { throw Exceeded() }
  }

  fileprivate func add(_ count: Int, to number: Int, _ new: Body, isAll: Bool) throws(Exceeded) {
    let (fits, displaced) = state.withLock { state -> (Bool, [(any Channel)?]) in
      var body = state.bodies[number] ?? new
      let own = (state.sources[body.source] ?? 0) + count
      guard body.phase == .arriving, own <= share else { return (false, []) }
      let (hasRoom, displaced) = makeRoom(for: count, own, in: &state)
      guard hasRoom else { return (false, displaced) }
      body.bytes += count
      if isAll { body.phase = .whole }
      state.bodies[number] = body
      state.total += count
      state.sources[body.source] = own
      return (true, displaced)
    }
    for channel in displaced { channel?.close(promise: nil) }
    guard fits else { throw Exceeded() }
  }

  /// Has bodies of those leave who have more than a source that wants to have `own`. What has not left yet is
  /// bounded, too.
  private func makeRoom(
    for count: Int, _ own: Int, in state: inout State
  ) -> (hasRoom: Bool, displaced: [(any Channel)?]) {
    var displaced: [(any Channel)?] = []
    while state.total - state.leaving + count > limit {
      guard state.leaving < limit / 4, let (number, body) = state.displaceable(by: own) else {
        return (false, displaced)
      }
      state.bodies[number]?.phase = .leaving
      state.leaving += body.bytes
      state.take(from: body.source, body.bytes)
      displaced.append(body.channel)
    }
    return (true, displaced)
  }

  fileprivate func end(_ number: Int) {
    state.withLock { state in
      if state.bodies[number]?.phase == .arriving { state.bodies[number]?.phase = .whole }
    }
  }

  fileprivate func release(_ number: Int) {
    state.withLock { state in
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
  func begin(expecting count: Int) throws(BodyBudget.Exceeded) { try budget.check(count, of: source) }

  /// So many bytes more have come.
  ///
  /// - Parameter isAll: whether they are the whole body, so that nobody takes its place any more.
  func add(_ count: Int, isAll: Bool = false) throws(BodyBudget.Exceeded) {
    try budget.add(count, to: number, .init(source: source, channel: channel), isAll: isAll)
  }

  /// All of it has come: nobody takes its place any more.
  func end() { budget.end(number) }

  /// Nothing of the body is held any more.
  func release() { budget.release(number) }
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
