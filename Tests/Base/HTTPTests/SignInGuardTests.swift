import Basics
import Foundation
import HTTPTypes
import Synchronization
import TestSupport
import Testing

@testable import HTTP

@Suite("Who tries to sign in")
struct SignInGuardTests {
  private let clock = TestClock()
  private let guardian: SignInGuard

  init() {
    guardian = SignInGuard { [clock] in clock.now }
  }

  private func attempt(_ secret: String, _ account: String? = "alice", from address: String = "192.0.2.1")
    -> SignInGuard.Attempt
  {
    SignInGuard.Attempt(from: ClientAddress(address) ?? .loopback, account: account, secret: secret)
  }

  /// Tries credentials. Returns nil if they were checked, else the wait until the next try, in seconds.
  @discardableResult
  private func tries(_ attempt: SignInGuard.Attempt, isRight: Bool = false) -> Double? {
    do throws(APIError) {
      try guardian.admit(attempt)
      guardian.record(attempt, isRight: isRight)
      return nil
    } catch {
      #expect(error.status == .tooManyRequests && error.code == "RATE_LIMIT_HIT")
      return error.headers[.retryAfter].flatMap(Double.init)
    }
  }

  @Test
  func `is held up after twenty wrong credentials, each time for twice as long, and is forgiven in the end`()
  {
    for number in 0...20 { #expect(tries(attempt("wrong \(number)")) == nil) }
    for expected in [2.0, 4, 8, 16, 32] {
      #expect(tries(attempt("right"), isRight: true) == expected)
      #expect(tries(attempt("right", "bob", from: "::ffff:192.0.2.1"), isRight: true) == expected)
      #expect(tries(attempt("right", from: "192.0.2.2"), isRight: true) == nil)
      clock.advance(expected)
      #expect(tries(attempt("worse \(expected)")) == nil)
    }
    // A client that keeps trying gets one try in five minutes, which is the longest wait.
    let (began, count) = (clock.now, 50)
    var longest = 0.0
    for number in 0..<count {
      let wait = tries(attempt("on and on \(number)")) ?? 0
      longest = max(longest, wait)
      clock.advance(wait)
      tries(attempt("on and on again \(number)"))
    }
    #expect((256...512).contains(longest))
    #expect(clock.now.timeIntervalSince(began) > Double(count) * 200)
    clock.advance(512)
    #expect(tries(attempt("right"), isRight: true) == nil)
    clock.advance(300 * 32)
    for number in 0...20 { #expect(tries(attempt("again \(number)")) == nil) }
    #expect(tries(attempt("again")) == 2)
  }

  @Test
  func `counts for a whole IPv6 network, and for nobody else`() {
    for number in 0...20 { tries(attempt("wrong \(number)", from: "2001:db8::\(number)")) }
    #expect(tries(attempt("right", from: "2001:db8::ffff"), isRight: true) == 2)
    #expect(tries(attempt("right", from: "2001:db8:0:1::1"), isRight: true) == nil)
  }

  @Test
  func `with what was right from there is let in although others there are held up`() {
    #expect(tries(attempt("right"), isRight: true) == nil)
    for number in 0...20 { tries(attempt("wrong \(number)")) }
    #expect(tries(attempt("right"), isRight: true) == nil)
    #expect(tries(attempt("right", "bob")) == 2)
    #expect(tries(attempt("right", from: "192.0.2.2"), isRight: true) == nil)
  }

  @Test
  func `with the same wrong credentials all the time holds up nobody else`() {
    for _ in 0...100 { #expect(tries(attempt("revoked")) == nil) }
    #expect(tries(attempt("revoked")) == 60)
    #expect(tries(attempt("right", "bob"), isRight: true) == nil)
    clock.advance(60)
    #expect(tries(attempt("revoked")) == nil)
  }

  @Test
  func `for an account that many try is held up sooner, and its owner never is`() {
    for number in 0..<101 { tries(attempt("wrong \(number)", "Alice", from: "198.51.100.\(number)")) }
    for number in 0..<3 { #expect(tries(attempt("\(number)")) == nil) }
    #expect(tries(attempt("3")) == nil)
    #expect(tries(attempt("4")) == 2)
    #expect(tries(attempt("right", from: "192.0.2.2"), isRight: true) == nil)
    // One mistyped password from another address causes no wait.
    #expect(tries(attempt("rihgt", from: "192.0.2.3")) == nil)
    #expect(tries(attempt("right", from: "192.0.2.3"), isRight: true) == nil)
    for number in 0..<4 { tries(attempt("\(number)", "bob", from: "192.0.2.4")) }
    #expect(tries(attempt("right", "bob", from: "192.0.2.4"), isRight: true) == nil)
  }

  @Test
  func `stays held up whoever else comes`() {
    for number in 0...20 { tries(attempt("wrong \(number)")) }
    for number in 0..<120_000 {
      tries(attempt("wrong", nil, from: "10.\(number >> 16).\(number >> 8 & 255).\(number & 255)"))
    }
    #expect(tries(attempt("right"), isRight: true) == 2)
  }
}
