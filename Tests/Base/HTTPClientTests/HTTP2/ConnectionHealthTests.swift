import NIOCore
import Testing

@testable import HTTPClient

@Suite("A connection's health")
struct ConnectionHealthTests {
  static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

  @Test func `Silence with requests under way calls for a PING, silence without does not`() {
    let health = ConnectionHealth(now: Self.start)
    #expect(health.check(underWay: 1, now: Self.start + .milliseconds(4999)) == .healthy)
    #expect(health.check(underWay: 1, now: Self.start + .seconds(5)) == .ping)
    #expect(health.check(underWay: 0, now: Self.start + .hours(5)) == .healthy)
  }

  @Test func `Silence counts from the first request after a pause`() {
    var health = ConnectionHealth(now: Self.start)
    let later = Self.start + .hours(1)
    health.wake(now: later)
    #expect(health.check(underWay: 1, now: later + .seconds(1)) == .healthy)
    health.received(now: later + .seconds(4))
    #expect(health.check(underWay: 1, now: later + .seconds(8)) == .healthy)
    #expect(health.check(underWay: 1, now: later + .seconds(9)) == .ping)
  }

  @Test func `A PING without an answer is the end`() {
    var health = ConnectionHealth(now: Self.start)
    health.pingSent(now: Self.start)
    health.pingSent(now: Self.start + .seconds(2))
    #expect(health.check(underWay: 0, now: Self.start + .milliseconds(2999)) == .healthy)
    #expect(health.check(underWay: 0, now: Self.start + .seconds(3)) == .dead)
    health.pingAnswered()
    #expect(health.check(underWay: 0, now: Self.start + .seconds(3)) == .healthy)
  }

  @Test func `The third timeout in a row replaces the connection, an answer between forgives`() {
    var health = ConnectionHealth(now: Self.start)
    let now = Self.start + .seconds(10)
    #expect(health.timedOut(sent: Self.start, now: now) == .ping)
    health.pingSent(now: now)
    #expect(health.timedOut(sent: Self.start, now: now) == .healthy)
    health.answered(now: now)
    #expect(health.timedOut(sent: Self.start, now: now) == .healthy)
    #expect(health.timedOut(sent: Self.start, now: now) == .healthy)
    #expect(health.timedOut(sent: Self.start, now: now) == .replace)
  }

  @Test func `A request that had no fair chance says nothing`() {
    var health = ConnectionHealth(now: Self.start)
    for _ in 0..<10 {
      #expect(health.timedOut(sent: Self.start, now: Self.start + .seconds(1)) == .healthy)
    }
  }
}
