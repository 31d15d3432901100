import Basics
import Foundation
import HTTPClient
import Providers
import Registrations
import Testing

@testable import Delivery

/// Tests what a provider's answer means for a token, by what others were answered.
@Suite struct DeletionPolicyTests {
  fileprivate enum Label: String {
    case keep, end, hold
    case doubtRoute = "doubt_route"
  }

  fileprivate static let registered = Date(timeIntervalSince1970: 1000)
  fileprivate static let now = Date(timeIntervalSince1970: 2000)
  private let registered = Self.registered
  private let now = Self.now
  private let delivered = Outcome.delivered
  private let suspect = Outcome.suspect(.badDeviceToken)

  @Test func `A dead token ends its registration unless that was made after the provider last looked`() {
    var deletionGuard = DeletionGuard()
    func dead(_ since: Double?) -> Outcome {
      .dead(.unregistered, since: since.map(Date.init(timeIntervalSince1970:)))
    }
    #expect(deletionGuard.verdict(on: dead(nil)) == .end)
    #expect(deletionGuard.verdict(on: dead(1000.001)) == .end)
    #expect(deletionGuard.verdict(on: dead(1000)) == .keep)
    #expect(deletionGuard.verdict(on: dead(999)) == .keep)
  }

  @Test func `A time before the registration counts for as long as a provider may need to notice it`() {
    var deletionGuard = DeletionGuard()
    let dead = Outcome.dead(.unregistered, since: registered - 1)
    for (believedSince, verdict) in [
      (registered - 0.001, Label.keep), (registered, .end), (registered + 3600, .end),
    ] {
      #expect(deletionGuard.verdict(on: dead, believedSince: believedSince) == verdict)
    }
    // Many at once are held back like others.
    for _ in 0..<20 { _ = deletionGuard.verdict(on: dead) }
    #expect(deletionGuard.verdict(on: dead, believedSince: now) == .hold)
  }

  @Test func `While the clock is doubted, no time that a provider names ends a registration`() {
    var deletionGuard = DeletionGuard()
    func verdict(_ since: Date?) -> Label {
      deletionGuard.verdict(on: .dead(.unregistered, since: since), believedSince: .distantPast)
    }
    for since in [registered - 1, registered + 1, now + 1] { #expect(verdict(since) == .keep) }
    #expect(verdict(nil) == .end)
  }

  @Test func `A refused token counts for nothing on a route that has never delivered`() {
    var deletionGuard = DeletionGuard()
    for second in 0..<100 {
      #expect(deletionGuard.verdict(on: suspect, now: now + Double(second)) == .doubtRoute)
    }
    #expect(deletionGuard.doubt?.since == now)
  }

  @Test func `A refused token ends its registration on a route that delivers`() {
    var deletionGuard = DeletionGuard()
    #expect(deletionGuard.verdict(on: delivered) == .keep)
    // One of two is not more than half.
    #expect(deletionGuard.verdict(on: suspect) == .end)
    #expect(deletionGuard.verdict(on: suspect) == .doubtRoute)
  }

  @Test func `Refusals stop ending registrations when they are more than half of the last 50 answers`() {
    var deletionGuard = DeletionGuard()
    for _ in 0..<1000 { _ = deletionGuard.verdict(on: delivered) }
    for count in 1...60 {
      #expect(deletionGuard.verdict(on: suspect) == (count <= 25 ? .end : .doubtRoute))
    }
    // And go on when the route has recovered.
    for _ in 0..<24 { _ = deletionGuard.verdict(on: delivered) }
    #expect(deletionGuard.verdict(on: suspect) == .doubtRoute)
    _ = deletionGuard.verdict(on: delivered)
    #expect(deletionGuard.verdict(on: suspect) == .end)
  }

  @Test func `An outage or a wrong key ends nothing and proves nothing`() {
    var deletionGuard = DeletionGuard()
    _ = deletionGuard.verdict(on: delivered)
    for _ in 0..<100 {
      #expect(deletionGuard.verdict(on: .retry(.timeout, notBefore: nil, scope: .route)) == .keep)
      #expect(deletionGuard.verdict(on: .misconfigured(.topicDisallowed)) == .keep)
      #expect(deletionGuard.verdict(on: .rejected(.payloadTooLarge)) == .keep)
    }
    #expect(deletionGuard.verdict(on: suspect) == .end)
  }

  @Test func `Dead tokens stop ending registrations when they are too many within minutes`() {
    let dead = Outcome.dead(.fcmUnregistered, since: nil)
    var deletionGuard = DeletionGuard()
    // All that are asked for: twenty are believed.
    for count in 1...60 {
      #expect(deletionGuard.verdict(on: dead) == (count <= 20 ? .end : .hold))
    }
    #expect(deletionGuard.verdict(on: dead, now: now + 599) == .hold)
    // Long after, they are the first again.
    #expect(deletionGuard.verdict(on: dead, now: now + 1200) == .end)

    // Half of fifty: one more is too many.
    deletionGuard = DeletionGuard()
    for _ in 0..<50 { _ = deletionGuard.verdict(on: delivered) }
    for count in 1...30 {
      #expect(deletionGuard.verdict(on: dead) == (count <= 25 ? .end : .hold))
    }
    for _ in 0..<26 { _ = deletionGuard.verdict(on: delivered) }
    #expect(deletionGuard.verdict(on: dead) == .end)

    // Few among many, for as long as it takes.
    deletionGuard = DeletionGuard()
    for count in 0..<1000 {
      let isDead = count.isMultiple(of: 3)
      let verdict = deletionGuard.verdict(on: isDead ? dead : delivered)
      #expect(verdict == (isDead ? .end : .keep))
    }
  }

  @Test func `One owner's bad tokens make nobody else's doubtful`() {
    var deletionGuard = DeletionGuard()
    func verdict(_ outcome: Outcome, _ owner: Int64) -> Label {
      deletionGuard.verdict(on: outcome, of: .chatServer(owner), believedSince: .distantPast)
    }
    let dead = Outcome.dead(.fcmUnregistered, since: nil)
    for _ in 0..<10 { _ = verdict(delivered, 2) }
    for count in 1...400 { #expect(verdict(dead, 1) == (count <= 20 ? .end : .hold)) }
    #expect(verdict(dead, 2) == .end)
    // Owner 1 has had others' answers in between, as a server has whose provider refuses all for a moment.
    for _ in 0..<50 { _ = verdict(delivered, 1) }
    for count in 1...400 { #expect(verdict(suspect, 1) == (count <= 25 ? .end : .doubtRoute)) }
    #expect(verdict(suspect, 2) == .end)
    #expect(verdict(suspect, 3) == .end)
  }

  @Test func `Three owners whose tokens are mostly refused or dead make everybody's doubtful`() {
    for outcome in [suspect, .dead(.fcmUnregistered, since: nil)] {
      var deletionGuard = DeletionGuard()
      func verdict(_ outcome: Outcome, _ owner: Int64) -> Label {
        deletionGuard.verdict(on: outcome, of: .chatServer(owner), believedSince: .distantPast)
      }
      _ = verdict(delivered, 9)
      for _ in 0..<8 {
        for owner in 1...3 { _ = verdict(outcome, Int64(owner)) }
      }
      #expect(verdict(outcome, 4) == (outcome == suspect ? .doubtRoute : .hold))
    }
  }

  private static let vapid = Outcome.retry(.vapidRefused, notBefore: nil, scope: .tokenOrRoute)
  private static let quota = Outcome.retry(.fcmQuotaExceeded, notBefore: nil, scope: .tokenOrRoute)

  private func verdict(
    on outcome: Outcome, _ pause: TokenPause? = nil, isUnknownYet: Bool = false, moves: Bool = false
  ) -> DeletionPolicy.Verdict {
    var deletionGuard = DeletionGuard()
    _ = deletionGuard.verdict(on: delivered)
    let policy = DeletionPolicy(
      registration: RegistrationReference(.e2ee, id: 1, registeredAt: registered), owner: .chatServer(1),
      requestedAt: now - 1, believedSince: registered, movesOnMismatch: moves,
      isUnknownYet: isUnknownYet)
    return policy.verdict(on: outcome, pause, evidence: &deletionGuard, now: now)
  }

  @Test
  func `A token that is refused for the time being waits, and after a day its notification is given up`() {
    #expect(verdict(on: Self.quota, TokenPause(until: now + 5)) == .pause(.fcmQuotaExceeded, until: now + 5))
    #expect(
      verdict(on: Self.quota, TokenPause(until: now + 5, isTooLong: true)) == .giveUp(.fcmQuotaExceeded))
  }

  @Test func `A subscription of another VAPID key ends once it alone is refused, and a quota ends nothing`() {
    let alone = TokenPause(until: now + 5, isRefusedAlone: true)
    #expect(verdict(on: Self.vapid, TokenPause(until: now + 5)) == .pause(.vapidRefused, until: now + 5))
    #expect(verdict(on: Self.vapid, alone) == .end(.vapidRefused, by: now - 1))
    #expect(verdict(on: Self.quota, alone) == .pause(.fcmQuotaExceeded, until: now + 5))
  }

  @Test func `An installation id that FCM does not know yet waits`() {
    let dead = Outcome.dead(.fcmUnregistered, since: nil)
    #expect(verdict(on: dead) == .end(.fcmUnregistered, by: now - 1))
    #expect(verdict(on: dead, isUnknownYet: true) == .pause(.installationIDUnknown, until: now + 60))
  }

  @Test func `A token of another project ends its registration, unless that moves upstream`() {
    let mismatch = Outcome.suspect(.fcmSenderIDMismatch)
    #expect(verdict(on: mismatch) == .end(.fcmSenderIDMismatch, by: now - 1))
    #expect(verdict(on: mismatch, moves: true) == .giveUp(.fcmSenderIDMismatch))
  }

  @Test func `What is decided about dead and refused tokens is counted, and nothing else`() {
    let labels = DeletionPolicy.Verdict.hold(.fcmUnregistered, by: now).labels
    #expect(labels?.verdict == "hold" && labels?.reason == .fcmUnregistered)
    #expect(DeletionPolicy.Verdict.keep.labels == nil)
  }
}

extension DeletionGuard {
  /// The labels of what is decided on a registration that is new, of the one owner that there is.
  fileprivate mutating func verdict(
    on outcome: Outcome, _ pause: TokenPause? = nil, of owner: Owner = .chatServer(1),
    believedSince: Date = Date(timeIntervalSince1970: 0), now: Date = DeletionPolicyTests.now
  ) -> DeletionPolicyTests.Label {
    let policy = DeletionPolicy(
      registration: RegistrationReference(.e2ee, id: 1, registeredAt: DeletionPolicyTests.registered),
      owner: owner, requestedAt: now, believedSince: believedSince)
    let verdict = policy.verdict(on: outcome, pause, evidence: &self, now: now)
    return verdict.labels.flatMap { DeletionPolicyTests.Label(rawValue: $0.verdict) } ?? .keep
  }
}
