import Foundation
import Testing

@testable import Delivery
@testable import Providers

@Suite struct DeletionGuardTests {
  private let registered = Date(timeIntervalSince1970: 1000)
  private let delivered = Outcome.delivered(id: "1")
  private let suspect = Outcome.suspect(.badDeviceToken)

  @Test func `A dead token ends its registration unless that was made after the provider last looked`() {
    var deletionGuard = DeletionGuard()
    func dead(_ since: Double?) -> Outcome {
      .dead(.unregistered, since: since.map(Date.init(timeIntervalSince1970:)))
    }
    #expect(deletionGuard.judge(dead(nil), registeredAt: registered) == .end)
    #expect(deletionGuard.judge(dead(1000.001), registeredAt: registered) == .end)
    #expect(deletionGuard.judge(dead(1000), registeredAt: registered) == .keep)
    #expect(deletionGuard.judge(dead(999), registeredAt: registered) == .keep)
  }

  @Test func `A refused token counts for nothing on a route that has never delivered`() {
    var deletionGuard = DeletionGuard()
    for _ in 0..<100 {
      #expect(deletionGuard.judge(suspect, registeredAt: registered) == .doubtRoute)
    }
  }

  @Test func `A refused token ends its registration on a route that delivers`() {
    var deletionGuard = DeletionGuard()
    #expect(deletionGuard.judge(delivered, registeredAt: registered) == .keep)
    // One of two is not more than half.
    #expect(deletionGuard.judge(suspect, registeredAt: registered) == .end)
    #expect(deletionGuard.judge(suspect, registeredAt: registered) == .doubtRoute)
  }

  @Test func `Refusals stop ending registrations when they are more than half of the last 50 answers`() {
    var deletionGuard = DeletionGuard()
    for _ in 0..<1000 { _ = deletionGuard.judge(delivered, registeredAt: registered) }
    for count in 1...60 {
      #expect(deletionGuard.judge(suspect, registeredAt: registered) == (count <= 25 ? .end : .doubtRoute))
    }
    // And go on when the route has recovered.
    for _ in 0..<24 { _ = deletionGuard.judge(delivered, registeredAt: registered) }
    #expect(deletionGuard.judge(suspect, registeredAt: registered) == .doubtRoute)
    _ = deletionGuard.judge(delivered, registeredAt: registered)
    #expect(deletionGuard.judge(suspect, registeredAt: registered) == .end)
  }

  @Test func `An outage or a wrong key ends nothing and proves nothing`() {
    var deletionGuard = DeletionGuard()
    _ = deletionGuard.judge(delivered, registeredAt: registered)
    for _ in 0..<100 {
      #expect(
        deletionGuard.judge(.retry(.timeout, notBefore: nil), registeredAt: registered) == .keep)
      #expect(
        deletionGuard.judge(.misconfigured(.topicDisallowed), registeredAt: registered) == .keep)
      #expect(deletionGuard.judge(.rejected(.payloadTooLarge), registeredAt: registered) == .keep)
    }
    #expect(deletionGuard.judge(suspect, registeredAt: registered) == .end)
  }
}
