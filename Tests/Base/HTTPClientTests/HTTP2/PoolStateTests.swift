import NIOCore
import Testing

@testable import Basics
@testable import HTTPClient

@Suite("The pool's decisions")
struct PoolStateTests {
  typealias State = PoolState<Int, String>

  static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

  /// Commands in words, so that they can be compared.
  static func words(_ commands: [State.Command]) -> [String] {
    commands.map { command in
      switch command {
      case .start(let request, let connection): "start \(request) on \(connection)"
      case .fail(let request, .unconnected(let failure)): "fail \(request): \(failure)"
      case .fail(let request, let failure): "fail \(request): \(failure)"
      case .connect(let id, let delay): "connect \(id.number) after \(delay.nanoseconds / 1_000_000) ms"
      case .probe(let connection): "probe \(connection)"
      case .close(let connection): "close \(connection)"
      }
    }
  }

  static func id(_ number: Int) -> ConnectionID { ConnectionID(number: number) }

  /// A pool with one proven connection "a".
  static func ready(streams: Int = 2, limits: State.Limits = .init()) -> State {
    var state = State(limits: limits)
    _ = state.add(0, now: start)
    _ = state.opened(id(1), "a", streams: streams, now: start)
    _ = state.finished(on: id(1), answered: true, now: start)
    return state
  }

  @Test func `The first request opens a connection, the next ones wait for it`() {
    var state = State()
    #expect(Self.words(state.add(1, now: Self.start)) == ["connect 1 after 0 ms"])
    #expect(Self.words(state.add(2, now: Self.start)) == [])
    #expect(
      Self.words(state.opened(Self.id(1), "a", streams: 100, now: Self.start)) == [
        "start 1 on a", "start 2 on a",
      ])
  }

  @Test func `No more streams are used than announced, nor than are good for it`() {
    var state = State(limits: .init(connections: 1, streams: 3))
    for request in 1...5 { _ = state.add(request, now: Self.start) }
    #expect(Self.words(state.opened(Self.id(1), "a", streams: 1, now: Self.start)) == ["start 1 on a"])
    #expect(
      Self.words(state.limitChanged(Self.id(1), streams: .max, now: Self.start)) == [
        "start 2 on a", "start 3 on a",
      ])
    #expect(Self.words(state.finished(on: Self.id(1), answered: true, now: Self.start)) == ["start 4 on a"])
    #expect(Self.words(state.limitChanged(Self.id(1), streams: 1, now: Self.start)) == [])
    #expect(Self.words(state.finished(on: Self.id(1), answered: true, now: Self.start)) == [])
  }

  @Test func `No more are under way than the limit, on connections that only finish too`() {
    var state = Self.ready(streams: 100, limits: .init(underWay: 2))
    #expect(Self.words(state.add(1, now: Self.start)) == ["start 1 on a"])
    #expect(Self.words(state.drain(Self.id(1), now: Self.start)) == [])
    #expect(Self.words(state.add(2, now: Self.start)) == ["connect 2 after 0 ms"])
    #expect(
      Self.words(state.opened(Self.id(2), "b", streams: 100, now: Self.start)) == ["start 2 on b"])
    #expect(Self.words(state.add(3, now: Self.start)) == [])
    #expect(
      Self.words(state.finished(on: Self.id(1), answered: true, now: Self.start)) == [
        "close a", "start 3 on b",
      ])
  }

  @Test func `Fresh connections are those begun after the one that is named`() {
    var state = Self.ready(streams: 1)
    _ = state.add(1, now: Self.start)
    #expect(Self.words(state.add(2, now: Self.start)) == ["connect 2 after 0 ms"])
    _ = state.opened(Self.id(2), "b", streams: 1, now: Self.start)
    #expect(Self.words(state.renew(through: Self.id(1), now: Self.start)) == [])
    #expect(Self.words(state.finished(on: Self.id(1), answered: true, now: Self.start)) == ["close a"])
    // None that is opening serves either, and none of them counts as a failure.
    #expect(Self.words(state.add(3, now: Self.start)) == [])
    #expect(Self.words(state.finished(on: Self.id(2), answered: true, now: Self.start)) == ["start 3 on b"])
    #expect(Self.words(state.add(4, now: Self.start)) == ["connect 3 after 0 ms"])
    #expect(Self.words(state.renew(through: nil, now: Self.start)) == ["connect 4 after 0 ms"])
    #expect(Self.words(state.opened(Self.id(3), "c", streams: 1, now: Self.start)) == ["close c"])
    #expect(Self.words(state.opened(Self.id(4), "d", streams: 1, now: Self.start)) == ["start 4 on d"])
  }

  @Test func `No other connection is opened before the first has given an answer`() {
    var state = State()
    for request in 1...3 { _ = state.add(request, now: Self.start) }
    #expect(Self.words(state.opened(Self.id(1), "a", streams: 1, now: Self.start)) == ["start 1 on a"])
    #expect(
      Self.words(state.finished(on: Self.id(1), answered: true, now: Self.start))
        == ["start 2 on a", "connect 2 after 0 ms"])
  }

  @Test func `Requests go to the connection with the fewest`() {
    var state = Self.ready(streams: 2)
    for request in 1...3 { _ = state.add(request, now: Self.start) }
    #expect(Self.words(state.opened(Self.id(2), "b", streams: 9, now: Self.start)) == ["start 3 on b"])
    #expect(Self.words(state.add(4, now: Self.start)) == ["start 4 on b"])
    _ = state.finished(on: Self.id(1), answered: true, now: Self.start)
    #expect(Self.words(state.add(5, now: Self.start)) == ["start 5 on a"])
  }

  @Test func `A connection that drains gets nothing more and is closed when it is empty`() {
    var state = Self.ready()
    _ = state.add(1, now: Self.start)
    #expect(Self.words(state.drain(Self.id(1), now: Self.start)) == [])
    #expect(Self.words(state.add(2, now: Self.start)) == ["connect 2 after 0 ms"])
    #expect(Self.words(state.finished(on: Self.id(1), answered: true, now: Self.start)) == ["close a"])
    _ = state.closed(Self.id(1), .connectionLost, now: Self.start)
    #expect(Self.words(state.opened(Self.id(2), "b", streams: 1, now: Self.start)) == ["start 2 on b"])
  }

  @Test func `What was certainly not processed goes first`() {
    var state = Self.ready(streams: 1, limits: .init(connections: 1))
    for request in 1...3 { _ = state.add(request, now: Self.start) }
    _ = state.add(9, again: true, now: Self.start)
    #expect(Self.words(state.finished(on: Self.id(1), answered: true, now: Self.start)) == ["start 9 on a"])
  }

  @Test func `What was certainly not processed waits for a connection that works, however many did not`() {
    var state = Self.ready(streams: 1, limits: .init(attempts: 1))
    _ = state.add(1, now: Self.start)
    _ = state.add(2, now: Self.start)
    #expect(
      Self.words(state.closed(Self.id(2), .unconnected(.connectFailed), now: Self.start)) == [
        "connect 3 after 100 ms"
      ])
    #expect(Self.words(state.add(9, again: true, now: Self.start)) == [])
    #expect(Self.words(state.finished(on: Self.id(1), answered: true, now: Self.start)) == ["start 9 on a"])
  }

  @Test func `Failed attempts wait longer each time, and the third tells those who wait`() {
    var state = State()
    _ = state.add(1, now: Self.start)
    #expect(
      Self.words(state.closed(Self.id(1), .unconnected(.connectFailed), now: Self.start)) == [
        "connect 2 after 100 ms"
      ])
    #expect(
      Self.words(state.closed(Self.id(2), .unconnected(.connectFailed), now: Self.start)) == [
        "connect 3 after 200 ms"
      ])
    _ = state.add(2, now: Self.start)
    #expect(
      Self.words(state.closed(Self.id(3), .unconnected(.tlsFailed), now: Self.start))
        == ["fail 1: tlsFailed", "fail 2: tlsFailed"])
    #expect(Self.words(state.add(3, now: Self.start)) == ["connect 4 after 400 ms"])
    #expect(
      Self.words(state.closed(Self.id(4), .unconnected(.connectFailed), now: Self.start)) == [
        "fail 3: connectFailed"
      ])
  }

  @Test func `An answer forgives the failures`() {
    var state = State()
    _ = state.add(1, now: Self.start)
    _ = state.closed(Self.id(1), .unconnected(.connectFailed), now: Self.start)
    _ = state.opened(Self.id(2), "b", streams: 5, now: Self.start)
    _ = state.finished(on: Self.id(2), answered: true, now: Self.start)
    _ = state.closed(Self.id(2), .connectionLost, now: Self.start)
    #expect(Self.words(state.add(2, now: Self.start + .seconds(1))) == ["connect 3 after 0 ms"])
    #expect(
      Self.words(state.closed(Self.id(3), .unconnected(.connectFailed), now: Self.start)) == [
        "connect 4 after 100 ms"
      ])
  }

  @Test func `A quiet connection is asked before it is used, and used once it answers`() {
    var state = Self.ready()
    let later = Self.start + .seconds(61)
    #expect(Self.words(state.add(1, now: later)) == ["probe a"])
    #expect(Self.words(state.add(2, now: later)) == [])
    #expect(Self.words(state.alive(Self.id(1), now: later)) == ["start 1 on a", "start 2 on a"])
  }

  @Test func `A quiet connection that does not answer is replaced, and nothing is lost`() {
    var state = Self.ready()
    let later = Self.start + .seconds(61)
    _ = state.add(1, now: later)
    #expect(Self.words(state.closed(Self.id(1), .connectionLost, now: later)) == ["connect 2 after 0 ms"])
    #expect(Self.words(state.opened(Self.id(2), "b", streams: 1, now: later)) == ["start 1 on b"])
  }

  @Test func `A suspected connection gets nothing new while others can be had`() {
    var state = Self.ready(streams: 5)
    _ = state.add(1, now: Self.start)
    #expect(Self.words(state.suspected(Self.id(1), now: Self.start)) == [])
    #expect(Self.words(state.add(2, now: Self.start)) == ["connect 2 after 0 ms"])
    #expect(Self.words(state.alive(Self.id(1), now: Self.start)) == ["start 2 on a"])
  }

  @Test func `Only so many may wait`() {
    var state = State(limits: .init(waiting: 2))
    for request in 1...2 { _ = state.add(request, now: Self.start) }
    #expect(Self.words(state.add(3, now: Self.start)) == ["fail 3: overloaded"])
    state.removeWaiting { $0 == 1 }
    #expect(Self.words(state.add(4, now: Self.start)) == [])
  }

  @Test func `Shutting down tells those who wait and closes what is idle`() {
    var state = Self.ready(streams: 1)
    for request in 1...2 { _ = state.add(request, now: Self.start) }
    #expect(Self.words(state.shutDown()) == ["fail 2: shuttingDown"])
    #expect(Self.words(state.add(3, now: Self.start)) == ["fail 3: shuttingDown"])
    #expect(Self.words(state.opened(Self.id(2), "b", streams: 1, now: Self.start)) == ["close b"])
    #expect(Self.words(state.finished(on: Self.id(1), answered: true, now: Self.start)) == ["close a"])
    #expect(!state.isEmpty)
    _ = state.closed(Self.id(1), .connectionLost, now: Self.start)
    _ = state.closed(Self.id(2), .connectionLost, now: Self.start)
    #expect(state.isEmpty)
  }

  @Test func `Requests that hang leave room for other owners', on connections that are used no more, too`() {
    var state = State(limits: .init(connections: 1, streams: 100))
    let (hanging, other) = (Owner(id: 1), Owner(id: 2))
    func starts(_ commands: [State.Command]) -> Int {
      commands.count { if case .start = $0 { true } else { false } }
    }
    for request in 0..<100 { _ = state.add(request, of: hanging, now: Self.start) }
    let first = ConnectionID(number: 1)
    #expect(starts(state.opened(first, "a", streams: 100, now: Self.start)) == 75)
    #expect(starts(state.add(100, of: other, now: Self.start)) == 1)
    // Another connection takes its place, and what hangs on the old one takes none on the new one.
    _ = state.drain(first, now: Self.start)
    #expect(starts(state.opened(ConnectionID(number: 2), "b", streams: 100, now: Self.start)) == 25)
    #expect(starts(state.add(101, of: other, now: Self.start)) == 1)
  }
}
