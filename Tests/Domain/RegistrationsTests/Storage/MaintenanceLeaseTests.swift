import Foundation
import Registrations
import SQL
import TestStore
import TestSupport
import Testing

@Suite struct MaintenanceLeaseTests {
  @Test func `One node has a lease, keeps it as long as it asks, and loses it when it does not`() async throws
  {
    let store = try await Store()
    let now: @Sendable () -> Date = { [clock = store.clock] in clock.now }
    let nodes = (0..<3).map { _ in MaintenanceLease("work", database: store.database, now: now) }
    let other = MaintenanceLease("other work", database: store.database, now: now)
    #expect(try await nodes[0].claim(for: 60))
    #expect(try await !nodes[1].claim(for: 60))
    #expect(try await other.claim(for: 60))
    for _ in 0..<5 {
      store.clock.advance(40)
      #expect(try await nodes[0].claim(for: 60))
      #expect(try await !nodes[1].claim(for: 60))
    }
    store.clock.advance(61)
    #expect(try await nodes[2].claim(for: 60))
    #expect(try await !nodes[0].claim(for: 60))
  }

  @Test func `A lease that a wrong clock has taken holds nobody up`() async throws {
    let store = try await Store()
    let now: @Sendable () -> Date = { [clock = store.clock] in clock.now }
    let nodes = (0..<2).map { _ in MaintenanceLease("work", database: store.database, now: now) }
    store.clock.advance(25 * 3600)
    #expect(try await nodes[0].claim(for: 60))
    store.clock.advance(-25 * 3600)
    #expect(try await nodes[1].claim(for: 60))
    #expect(try await !nodes[0].claim(for: 60))
  }

  @Test func `Many nodes at once are one`() async throws {
    let store = try await Store()
    let now: @Sendable () -> Date = { [clock = store.clock] in clock.now }
    let winners = try await withThrowingTaskGroup(of: Bool.self) { group in
      for _ in 0..<20 {
        group.addTask {
          try await MaintenanceLease("work", database: store.database, now: now).claim(for: 60)
        }
      }
      return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(winners == 1)
  }
}
