import Foundation
import Testing

@testable import Providers

@Suite struct FailureRunTests {
  private static let start = Date(timeIntervalSince1970: 1_800_000_000)

  private static func run(_ times: [TimeInterval], _ reason: Reason = .connectionLost) -> FailureRun {
    var run = FailureRun()
    for time in times { run.failed(reason, isLasting: false, now: start + time) }
    return run
  }

  @Test func `Nothing that has failed is no proof`() {
    #expect(!FailureRun().isProof)
    #expect(FailureRun().since == nil)
  }

  @Test func `However many fail at once, it takes seconds of nothing but failures`() {
    #expect(!Self.run(Array(repeating: 0, count: 1000)).isProof)
    #expect(!Self.run([0, 1, 2, 2.99]).isProof)
    let proof = Self.run([0, 1, 2, 3])
    #expect(proof.isProof && proof.since == Self.start && proof.reason == .connectionLost)
  }

  @Test func `A success begins anew`() {
    var run = Self.run([0, 1, 2, 3])
    run.ended()
    #expect(!run.isProof && run.since == nil)
    run.failed(.refused, isLasting: false, now: Self.start + 4)
    #expect(!run.isProof && run.since == Self.start + 4)
  }

  @Test func `Failures far apart prove nothing, unless the route was known not to work`() {
    #expect(!Self.run([0, 121, 242, 363]).isProof)
    #expect(Self.run([0, 120]).isProof)
    #expect(Self.run([0, 3, 900]).since == Self.start)
  }

  @Test func `What fails for sure needs no second time`() {
    var run = FailureRun()
    run.failed(.invalidProviderToken, isLasting: true, now: Self.start)
    #expect(run.isProof && run.since == Self.start)
  }

  @Test func `The reason is the latest one's`() {
    var run = Self.run([0, 3])
    run.failed(.connectFailed, isLasting: false, now: Self.start + 4)
    #expect(run.reason == .connectFailed && run.since == Self.start)
  }

  @Test func `A clock that is put back proves nothing`() {
    #expect(!Self.run([0, -3600, -3599]).isProof)
    #expect(Self.run([0, -3600, -3597]).isProof)
    #expect(Self.run([0, 3, -3600]).isProof)
  }
}
