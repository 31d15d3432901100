import Basics
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
    /// What sources hold, in bytes, without what is displaced.
    var held: SharedBudget<ClientAddress>
    /// What is displaced but not yet free, in bytes.
    var displaced = 0
    /// By the number of their ``BodyCharge``.
    var bodies: [Int: Body] = [:]

    /// The largest arriving body of the source that holds most, if it holds more than the new body's source
    /// would.
    func displaceable(by own: Int) -> (number: Int, body: Body)? {
      func standing(_ body: Body) -> (Int, Int) { (held[body.source], body.bytes) }
      return bodies.lazy.filter { $0.value.phase == .arriving && standing($0.value).0 > own }
        .max { standing($0.value) < standing($1.value) }.map { ($0.key, $0.value) }
    }

    /// Takes bytes for a source. If the total is used up, displaces bodies of sources that hold more than this one then will.
    /// The bytes that are displaced but not yet free are limited as well.
    ///
    /// - Returns: whether they were taken.
    mutating func take(
      _ count: Int, of source: ClientAddress, _ channels: inout [(any Channel)?]
    ) -> Bool {
      while !held.take(count, of: source) {
        guard held.refusal(of: count, to: source) == .full, displaced < held.limit / 4,
          let (number, body) = displaceable(by: held[source] + count)
        else { return false }
        bodies[number]?.phase = .displaced
        displaced += body.bytes
        held.release(body.bytes, of: body.source)
        channels.append(body.channel)
      }
      return true
    }
  }

  fileprivate let state: Mutex<State>
  fileprivate let charges = Atomic(0)

  /// - Parameters:
  ///   - limit: bytes in all.
  ///   - largest: size of the largest body that is accepted.
  package init(limit: Int, largest: Int) {
    state = Mutex(State(held: SharedBudget(max(limit, largest), most: max(limit / 4, largest))))
  }

  /// There is no room for the body at present.
  package struct Exceeded: Error {}

  package var bytes: Int { state.withLock { $0.held.total + $0.displaced } }
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
      switch state.held.refusal(of: count, to: source) {
      case nil: true
      case .share: false
      case .full: state.displaceable(by: state.held[source] + count) != nil
      }
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
      guard body.phase == .arriving, state.take(count, of: source, &displaced) else {
        return (false, displaced)
      }
      body.bytes += count
      if isAll { body.phase = .whole }
      state.bodies[number] = body
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
      if body.phase == .displaced {
        state.displaced -= body.bytes
      } else {
        state.held.release(body.bytes, of: body.source)
      }
    }
  }
}
