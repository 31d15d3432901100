import Foundation
import Testing

@testable import Providers

@Suite struct BreakerTests {
  private let start = Date(timeIntervalSince1970: 1000)

  private func failed(_ breaker: inout Breaker, times: Int, at time: Date) {
    for _ in 0..<times { breaker.failed(.request, .unknown, notBefore: nil, now: time, jitter: 0) }
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
    breaker.failed(.lasting, .unknown, notBefore: nil, now: start, jitter: 0)
    #expect(breaker.isOpen)
    #expect(breaker.failures.isProof && breaker.failures.since == start)
  }

  @Test func `After the pause one request goes as a probe, and only one`() {
    var breaker = Breaker()
    breaker.failed(.lasting, .unknown, notBefore: nil, now: start, jitter: 0)
    #expect(breaker.admit(now: start + 0.999) == .wait(until: start + 1))
    #expect(breaker.admit(now: start + 1) == .probe)
    #expect(breaker.admit(now: start + 1) == .wait(until: start + 2))
    breaker.succeeded()
    #expect(breaker.admit(now: start + 1) == .send)
  }

  @Test func `A clock that is put back holds nobody up`() {
    var breaker = Breaker()
    breaker.failed(.lasting, .unknown, notBefore: start + 7200, now: start, jitter: 0)
    #expect(breaker.admit(now: start + 599) == .wait(until: start + 600))
    #expect(breaker.admit(now: start - 6 * 3600) == .probe)
    // The probe's clock is put back once more.
    #expect(breaker.admit(now: start - 6 * 3600 + 1) == .wait(until: start - 6 * 3600 + 2))
    #expect(breaker.admit(now: start - 12 * 3600) == .probe)
  }

  @Test func `Pauses double up to 15 seconds and are shortened at random by up to a half`() {
    var breaker = Breaker()
    breaker.failed(.lasting, .unknown, notBefore: nil, now: start, jitter: 0)
    var now = start
    for pause in [1.0, 2, 4, 8, 15, 15] {
      #expect(breaker.admit(now: now) == .wait(until: now + pause))
      now += pause
      #expect(breaker.admit(now: now) == .probe)
      breaker.failed(.request, .unknown, notBefore: nil, now: now, jitter: 0)
    }
    now += 15
    #expect(breaker.admit(now: now) == .probe)
    breaker.failed(.request, .unknown, notBefore: nil, now: now, jitter: 1)
    #expect(breaker.admit(now: now) == .wait(until: now + 7.5))
  }

  @Test func `The provider's own time is respected, within reason`() {
    var breaker = Breaker()
    breaker.failed(.lasting, .unknown, notBefore: start + 90, now: start, jitter: 0)
    #expect(breaker.admit(now: start + 2) == .wait(until: start + 90))
    var other = Breaker()
    other.failed(.lasting, .unknown, notBefore: start + 1_000_000, now: start, jitter: 0)
    #expect(other.admit(now: start + 2) == .wait(until: start + 600))
  }

  @Test func `Late failures of an open breaker change nothing`() {
    var breaker = Breaker()
    breaker.failed(.lasting, .unknown, notBefore: nil, now: start, jitter: 0)
    failed(&breaker, times: 1000, at: start + 0.5)
    #expect(breaker.admit(now: start + 1) == .probe)
  }

  @Test func `A probe that is given up or lost makes way for another`() {
    var breaker = Breaker()
    breaker.failed(.lasting, .unknown, notBefore: nil, now: start, jitter: 0)
    #expect(breaker.admit(now: start + 1) == .probe)
    breaker.probeAbandoned(now: start + 1)
    #expect(breaker.admit(now: start + 1) == .probe)
    #expect(breaker.admit(now: start + 30) == .wait(until: start + 31))
    #expect(breaker.admit(now: start + 31) == .probe)
  }

  // MARK: Since when everything fails

  private func lose(
    _ breaker: inout Breaker, at times: [TimeInterval], _ reason: Reason = .connectionLost
  ) {
    for time in times {
      breaker.failed(.connection, reason, notBefore: nil, now: start + time, jitter: 0)
    }
  }

  private func failures(_ times: [TimeInterval]) -> Breaker.Failures {
    var breaker = Breaker()
    lose(&breaker, at: times)
    return breaker.failures
  }

  @Test func `However many fail at once, it takes seconds of nothing but failures to prove anything`() {
    #expect(failures([]).since == nil)
    #expect(!failures([]).isProof)
    #expect(!failures(Array(repeating: 0, count: 1000)).isProof)
    #expect(!failures([0, 1, 2, 2.99]).isProof)
    let proof = failures([0, 1, 2, 3])
    #expect(proof.isProof && proof.since == start && proof.reason == .connectionLost)
  }

  @Test func `Lost connections open it only after that`() {
    var breaker = Breaker()
    lose(&breaker, at: Array(repeating: 0, count: 1000))
    #expect(!breaker.isOpen)
    lose(&breaker, at: Array(repeating: 3, count: Breaker.threshold))
    #expect(breaker.isOpen)
  }

  @Test func `An open one is proof, however fast it came`() {
    var breaker = Breaker()
    failed(&breaker, times: Breaker.threshold - 1, at: start)
    #expect(!breaker.failures.isProof)
    failed(&breaker, times: 1, at: start)
    #expect(breaker.failures.isProof && breaker.failures.since == start)
  }

  @Test func `A success begins anew`() {
    var breaker = Breaker()
    lose(&breaker, at: [0, 1, 2, 3])
    breaker.succeeded()
    #expect(!breaker.failures.isProof && breaker.failures.since == nil)
    lose(&breaker, at: [4])
    #expect(!breaker.failures.isProof && breaker.failures.since == start + 4)
  }

  @Test func `Failures far apart prove nothing, unless the route was known not to work`() {
    #expect(!failures([0, 121, 242, 363]).isProof)
    #expect(failures([0, 120]).isProof)
    #expect(failures([0, 3, 900]).since == start)
  }

  @Test func `The reason is the latest one's`() {
    var breaker = Breaker()
    lose(&breaker, at: [0, 3])
    lose(&breaker, at: [4], .connectFailed)
    #expect(breaker.failures.reason == .connectFailed && breaker.failures.since == start)
  }

  @Test func `A clock that is put back proves nothing`() {
    #expect(!failures([0, -3600, -3599]).isProof)
    #expect(failures([0, -3600, -3597]).isProof)
    #expect(failures([0, 3, -3600]).isProof)
  }
}
