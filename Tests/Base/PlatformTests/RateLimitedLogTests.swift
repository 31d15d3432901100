import Foundation
import Logging
import Platform
import TestSupport
import Testing

@Suite struct RateLimitedLogTests {
  private static let start = Date(timeIntervalSince1970: 1_800_000_000)
  private static let limit = RateLimitedLog.Limit("refusals", perMinute: 60)
  private let recorder = LogRecorder()
  private let log = RateLimitedLog()

  private func log(_ count: Int, _ limit: RateLimitedLog.Limit = limit, at time: Date) {
    for _ in 0..<count { log.log(.info, "refused", limit, to: recorder.logger, now: time, metadata: [:]) }
  }

  private var leftOut: [String] {
    recorder.lines.compactMap { $0.metadata["left_out"] }.map { "\($0)" }
  }

  @Test func `So many lines are logged in a minute, and the rest is counted once it is over`() {
    log(40, at: Self.start)
    #expect(log.remaining(Self.limit, now: Self.start + 30) == 20)
    log(41, at: Self.start + 30)
    log.logLeftOut(to: recorder.logger, now: Self.start + 59)
    #expect(recorder.lines.count == 60)
    log.logLeftOut(to: recorder.logger, now: Self.start + 60)
    log(1, at: Self.start + 60)
    #expect(recorder.lines.map(\.message).suffix(2) == ["more lines were left out: refusals", "refused"])
    #expect(leftOut == ["21"])
  }

  @Test func `Each limit has its own minute, and the next line of any says what was left out`() {
    log(61, at: Self.start)
    log(1, RateLimitedLog.Limit("others", perMinute: 1), at: Self.start + 60)
    #expect(recorder.lines.count == 62 && leftOut == ["1"])
  }

  @Test func `A clock that is put back begins a new minute`() {
    log(100, at: Self.start)
    log(1, at: Self.start - 3600)
    #expect(recorder.lines.count == 62 && leftOut == ["40"])
  }
}
