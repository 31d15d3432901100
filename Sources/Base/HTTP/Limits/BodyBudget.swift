import NIOCore
import Synchronization

/// Limits the bytes of all request bodies that are being read or held: a total, and for each source a quarter
/// of it, but at least one body of the largest size. Further bodies are refused.
///
/// If the total is used up, a new body displaces one that is still arriving, from the source that holds most,
/// so that a source cannot block others by slow uploads.
package final class BodyBudget: Sendable {
  fileprivate struct Body {
    enum Phase {
      case arriving, whole
      /// Displaced, but counted until its memory is free.
      case displaced
    }

    let source: ClientAddress
    let channel: (any Channel)?
    var phase = Phase.arriving
    var bytes = 0
  }

  fileprivate struct State {
    let limit: Int
    /// The limit of one source, in bytes.
    let share: Int
    var total = 0
    /// The part of the total that is displaced but not yet free, in bytes.
    var displaced = 0
    var sources: [ClientAddress: Int] = [:]
    /// By the number of their ``BodyCharge``.
    var bodies: [Int: Body] = [:]

    func isFull(with count: Int) -> Bool { total - displaced + count > limit }

    /// The largest arriving body of the source that holds most, if it holds more than the new body's source
    /// would.
    func displaceable(by own: Int) -> (number: Int, body: Body)? {
      func standing(_ body: Body) -> (Int, Int) { (sources[body.source] ?? 0, body.bytes) }
      return bodies.lazy.filter { $0.value.phase == .arriving && standing($0.value).0 > own }
        .max { standing($0.value) < standing($1.value) }.map { ($0.key, $0.value) }
    }

    /// Displaces bodies of sources that hold more than `own`, the bytes that the new body's source would
    /// hold, until `count` more bytes fit. The bytes that are displaced but not yet free are limited as well.
    ///
    /// - Returns: whether they fit.
    mutating func makeRoom(for count: Int, _ own: Int, _ channels: inout [(any Channel)?]) -> Bool {
      while isFull(with: count) {
        guard displaced < limit / 4, let (number, body) = displaceable(by: own) else { return false }
        bodies[number]?.phase = .displaced
        displaced += body.bytes
        subtract(body.bytes, from: body.source)
        channels.append(body.channel)
      }
      return true
    }

    mutating func subtract(_ count: Int, from source: ClientAddress) {
      let rest = (sources[source] ?? 0) - count
      sources[source] = rest > 0 ? rest : nil
    }
  }

  fileprivate let state: Mutex<State>
  fileprivate let charges = Atomic(0)

  /// - Parameters:
  ///   - limit: bytes in all.
  ///   - largest: size of the largest body that is accepted.
  package init(limit: Int, largest: Int) {
    state = Mutex(State(limit: max(limit, largest), share: max(limit / 4, largest)))
  }

  /// There is no room for the body at present.
  package struct Exceeded: Error {}

  package var bytes: Int { state.withLock { $0.total } }
}

/// The bytes that the body of one request takes of the budget.
final class BodyCharge: Sendable {
  private let budget: BodyBudget
  private let number: Int
  private let source: ClientAddress
  private let channel: (any Channel)?

  /// - Parameter channel: the connection to close if the body is displaced.
  init(_ budget: BodyBudget, source: ClientAddress, channel: (any Channel)? = nil) {
    self.budget = budget
    number = budget.charges.wrappingAdd(1, ordering: .relaxed).newValue
    self.source = source
    self.channel = channel
  }

  /// Throws if there is no room for a body of the declared length. Reserves nothing, because a false
  /// declaration costs the sender nothing.
  func checkRoom(for count: Int) throws(BodyBudget.Exceeded) {
    let fits = budget.state.withLock { state in
      let own = (state.sources[source] ?? 0) + count
      return own <= state.share && (!state.isFull(with: count) || state.displaceable(by: own) != nil)
    }
    guard fits else { throw BodyBudget.Exceeded() }
  }

  /// Charges bytes that have arrived.
  ///
  /// - Parameter isAll: whether the body is complete, so that it can no longer be displaced.
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

  /// Marks the body as complete, so that it can no longer be displaced.
  func markComplete() {
    budget.state.withLock { state in
      if state.bodies[number]?.phase == .arriving { state.bodies[number]?.phase = .whole }
    }
  }

  /// Frees the charge once the body is no longer held.
  func release() {
    budget.state.withLock { state in
      guard let body = state.bodies.removeValue(forKey: number) else { return }
      state.total -= body.bytes
      if body.phase == .displaced {
        state.displaced -= body.bytes
      } else {
        state.subtract(body.bytes, from: body.source)
      }
    }
  }
}
