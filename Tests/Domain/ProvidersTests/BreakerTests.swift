import Foundation
import Testing

@testable import Providers

@Suite struct BreakerTests {
  private let start = Date(timeIntervalSince1970: 1000)

  private func failed(_ breaker: inout Breaker, times: Int, at time: Date) {
    for _ in 0..<times { breaker.failed(isLasting: false, notBefore: nil, now: time, jitter: 0) }
  }

  @Test func `Failures in a row open it, a success in between does not let them add up`() {
    var breaker = Breaker()
    failed(&breaker, times: Breaker.threshold - 1, at: start)
    breaker.succeeded()
    failed(&breaker, times: Breaker.threshold - 1, at: start)
    #expect(breaker.admit(now: start) == .send)
    failed(&breaker, times: 1, at: start)
    #expect(breaker.admit(now: start) == .wait(until: start + 1))
  }

  @Test func `A fault that lasts opens it at once`() {
    var breaker = Breaker()
    breaker.failed(isLasting: true, notBefore: nil, now: start, jitter: 0)
    #expect(breaker.isOpen)
  }

  @Test func `After the pause one request goes as a probe, and only one`() {
    var breaker = Breaker()
    breaker.failed(isLasting: true, notBefore: nil, now: start, jitter: 0)
    #expect(breaker.admit(now: start + 0.999) == .wait(until: start + 1))
    #expect(breaker.admit(now: start + 1) == .probe)
    #expect(breaker.admit(now: start + 1) == .wait(until: start + 2))
    breaker.succeeded()
    #expect(breaker.admit(now: start + 1) == .send)
  }

  @Test func `A clock that is put back holds nobody up`() {
    var breaker = Breaker()
    breaker.failed(isLasting: true, notBefore: start + 7200, now: start, jitter: 0)
    #expect(breaker.admit(now: start + 599) == .wait(until: start + 600))
    #expect(breaker.admit(now: start - 6 * 3600) == .probe)
    // The probe's clock is put back once more.
    #expect(breaker.admit(now: start - 6 * 3600 + 1) == .wait(until: start - 6 * 3600 + 2))
    #expect(breaker.admit(now: start - 12 * 3600) == .probe)
  }

  @Test func `Pauses double up to 15 seconds and are shortened at random by up to a half`() {
    var breaker = Breaker()
    breaker.failed(isLasting: true, notBefore: nil, now: start, jitter: 0)
    var now = start
    for pause in [1.0, 2, 4, 8, 15, 15] {
      #expect(breaker.admit(now: now) == .wait(until: now + pause))
      now += pause
      #expect(breaker.admit(now: now) == .probe)
      breaker.failed(isLasting: false, notBefore: nil, now: now, jitter: 0)
    }
    now += 15
    #expect(breaker.admit(now: now) == .probe)
    breaker.failed(isLasting: false, notBefore: nil, now: now, jitter: 1)
    #expect(breaker.admit(now: now) == .wait(until: now + 7.5))
  }

  @Test func `The provider's own time is respected, within reason`() {
    var breaker = Breaker()
    breaker.failed(isLasting: true, notBefore: start + 90, now: start, jitter: 0)
    #expect(breaker.admit(now: start + 2) == .wait(until: start + 90))
    var other = Breaker()
    other.failed(isLasting: true, notBefore: start + 1_000_000, now: start, jitter: 0)
    #expect(other.admit(now: start + 2) == .wait(until: start + 600))
  }

  @Test func `Late failures of an open breaker change nothing`() {
    var breaker = Breaker()
    breaker.failed(isLasting: true, notBefore: nil, now: start, jitter: 0)
    failed(&breaker, times: 1000, at: start + 0.5)
    #expect(breaker.admit(now: start + 1) == .probe)
  }

  @Test func `A probe that is given up or lost makes way for another`() {
    var breaker = Breaker()
    breaker.failed(isLasting: true, notBefore: nil, now: start, jitter: 0)
    #expect(breaker.admit(now: start + 1) == .probe)
    breaker.probeAbandoned(now: start + 1)
    #expect(breaker.admit(now: start + 1) == .probe)
    #expect(breaker.admit(now: start + 30) == .wait(until: start + 31))
    #expect(breaker.admit(now: start + 31) == .probe)
  }
}
