import AsyncHTTPClient
import Basics
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import HTTPClient

/// A resolver where names with `stall` in them stall until they are let go.
private final class Resolver: Sendable {
  private struct State {
    var isStalled = true
    var asked: [String] = []
  }

  private let state = Mutex(State())

  var asked: [String] { state.withLock { $0.asked } }

  func ask(_ name: String) -> [String] {
    state.withLock { $0.asked.append(name) }
    while name.contains("stall"), state.withLock({ $0.isStalled }) { Thread.sleep(forTimeInterval: 0.001) }
    return name.contains("none") ? [] : ["192.0.2.1"]
  }

  func letGo() { state.withLock { $0.isStalled = false } }
}

@Suite("Lookups")
struct LookupTests {
  private static let found = ["192.0.2.1"]

  /// Runs a test with a pool over a resolver, and lets every name go afterwards.
  private func with(
    threads: Int = 4, domainShare: Int = 4, newShare: Int = 4,
    _ test: (LookupPool, Resolver) async throws -> Void
  ) async throws {
    let resolver = Resolver()
    defer { resolver.letGo() }
    let pool = LookupPool(limits: .init(threads: threads, perDomain: domainShare, perNew: newShare)) {
      resolver.ask($0)
    }
    try await test(pool, resolver)
  }

  /// The addresses of a name; nil if there are none so soon.
  private static func addresses(of name: String, _ pool: LookupPool, within limit: Duration) async
    -> [String]?
  {
    try? await withTimeout(limit) { try await pool.addresses(of: name) }
  }

  /// Asks without waiting for the answer.
  private func begin(_ names: [String], _ pool: LookupPool) -> [Task<[String], any Error>] {
    names.map { name in Task { try await pool.addresses(of: name) } }
  }

  @Test(arguments: ["co.uk", "com.au", "ne.jp", "uk.com", "ltd.uk"])
  func `are held up by no other domain that is registered under the same suffix`(_ suffix: String)
    async throws
  {
    try await with(threads: 8, domainShare: 2, newShare: 8) { pool, resolver async throws in
      let stalled = begin((1...3).map { "stall\($0).\(suffix)" }, pool)
      await eventually { resolver.asked.count == 3 }
      // One domain has its share there as well.
      let more = begin((1...5).map { "stall\($0).example.\(suffix)" }, pool)
      await eventually { resolver.asked.count == 5 }
      for name in ["example.net", "chat.other.\(suffix)"] {
        #expect(await Self.addresses(of: name, pool, within: longestWait) == ["192.0.2.1"])
      }
      #expect(resolver.asked.count == 7)
      resolver.letGo()
      for task in stalled + more { #expect(try await task.value == ["192.0.2.1"]) }
    }
  }

  @Test
  func `are answered though eight names of one domain stall`() async throws {
    try await with(domainShare: 2) { pool, resolver async throws in
      let stalled = begin((1...8).map { "stall\($0).example.org" }, pool)
      await eventually { resolver.asked.count == 2 }
      for name in ["chat.example.net", "other.example.net", "localhost"] {
        #expect(try await pool.addresses(of: name) == ["192.0.2.1"])
      }
      #expect(resolver.asked.count == 5)
      resolver.letGo()
      for task in stalled { #expect(try await task.value == ["192.0.2.1"]) }
    }
  }

  @Test
  func `of names that have answered before are answered though all others stall`() async throws {
    try await with(newShare: 3) { pool, resolver async throws in
      #expect(try await pool.addresses(of: "known.example.net") == ["192.0.2.1"])
      #expect(try await pool.addresses(of: "none.example.net") == [])
      let stalled = begin((1...8).map { "stall.example\($0).org" }, pool)
      await eventually { resolver.asked.count == 5 }
      #expect(try await pool.addresses(of: "known.example.net") == ["192.0.2.1"])
      // What has not answered is as new as what nobody knows.
      #expect(await Self.addresses(of: "none.example.net", pool, within: .milliseconds(20)) == nil)
      #expect(await Self.addresses(of: "new.example.net", pool, within: .milliseconds(20)) == nil)
      resolver.letGo()
      for task in stalled { _ = try await task.value }
      #expect(try await pool.addresses(of: "new.example.net") == ["192.0.2.1"])
    }
  }

  @Test
  func `of one name at once are one`() async throws {
    try await with { pool, resolver async throws in
      let first = begin(["stall.example.org"], pool)
      await eventually { resolver.asked.count == 1 }
      let others = begin(Array(repeating: "stall.example.org", count: 50), pool)
      // One who leaves takes the answer from nobody.
      others[0].cancel()
      await #expect(throws: CancellationError.self) { try await others[0].value }
      resolver.letGo()
      for task in first + others.dropFirst() { #expect(try await task.value == ["192.0.2.1"]) }
      #expect(resolver.asked == ["stall.example.org"])
    }
  }

  @Test
  func `are waited for no longer than the caller wants, and not made when nobody waits`() async throws {
    try await with { pool, resolver async throws in
      let stalled = begin((1...4).map { "stall.example\($0).org" }, pool)
      await eventually { resolver.asked.count == 4 }
      // Nothing moves before the names are let go: that this comes back at all is the proof.
      #expect(await Self.addresses(of: "new.example.net", pool, within: .milliseconds(20)) == nil)
      #expect(await Self.addresses(of: "stall.example1.org", pool, within: .milliseconds(20)) == nil)
      for task in stalled { task.cancel() }
      for task in stalled { await #expect(throws: CancellationError.self) { try await task.value } }
      resolver.letGo()
      #expect(try await pool.addresses(of: "last.example.net") == ["192.0.2.1"])
      #expect(!resolver.asked.contains("new.example.net"))
    }
  }

  @Test
  func `that are too many are refused at once`() throws {
    var queue = LookupQueue(limits: .init(threads: 2, perDomain: 2, perNew: 2, waiting: 3))
    for number in 1...3 { try queue.add("\(number).org", for: number) }
    #expect(throws: LookupsExhausted.self) { try queue.add("4.org", for: 4) }
    // Who joins takes no room, and who leaves gives it back.
    try queue.add("3.org", for: 5)
    queue.remove(3, of: "3.org")
    #expect(queue.waiting == ["1.org", "2.org", "3.org"])
    queue.remove(5, of: "3.org")
    #expect(queue.waiting == ["1.org", "2.org"])
    #expect(queue.next() == "1.org")
    queue.remove(1, of: "1.org")
    #expect(queue.next() == "2.org")
    #expect(queue.next() == nil)
    #expect(queue.finish("1.org", Self.found).isEmpty)
    #expect(queue.finish("2.org", Self.found) == [2])
  }

  @Test
  func `of names that are known and that are new are made in the order in which they came`() throws {
    var queue = LookupQueue(limits: .init(threads: 3, perDomain: 1, perNew: 1))
    try queue.add("known.org", for: 1)
    #expect(queue.next() == "known.org")
    _ = queue.finish("known.org", Self.found)
    for (number, name) in ["new.org", "known.org", "newer.org", "www.known.org"].enumerated() {
      try queue.add(name, for: number)
    }
    #expect(queue.next() == "new.org")
    // No other new one, and no other of that domain.
    #expect(queue.next() == "known.org")
    #expect(queue.next() == nil)
    _ = queue.finish("known.org", Self.found)
    #expect(queue.next() == nil)
    _ = queue.finish("new.org", [])
    #expect(queue.next() == "newer.org")
    _ = queue.finish("newer.org", [])
    #expect(queue.next() == "www.known.org")
  }

  @Test
  func `of a domain stay within its limit when one of them ends`() throws {
    var queue = LookupQueue(limits: .init(threads: 9, perDomain: 2, perNew: 9))
    for (number, name) in ["a.x.org", "b.x.org", "c.x.org", "d.x.org"].enumerated() {
      try queue.add(name, for: number)
    }
    #expect([queue.next(), queue.next(), queue.next()] == ["a.x.org", "b.x.org", nil])
    _ = queue.finish("a.x.org", Self.found)
    #expect([queue.next(), queue.next()] == ["c.x.org", nil])
  }

  @Test
  func `remember no more names than they may`() throws {
    var queue = LookupQueue(limits: .init(threads: 1, perDomain: 1, perNew: 0, remembered: 10))
    #expect(throws: Never.self) { try queue.add("a.org", for: 1) }
    #expect(queue.next() == nil)
    queue = LookupQueue(limits: .init(threads: 1, perDomain: 1, perNew: 1, remembered: 10))
    for number in 0..<1000 {
      try queue.add("\(number).org", for: number)
      #expect(queue.next() == "\(number).org")
      _ = queue.finish("\(number).org", Self.found)
    }
    #expect(queue.remembered <= 20)
  }

  @Test
  func `that have no time leave a name the addresses that it has answered with before`() async throws {
    try await with(threads: 1) { pool, resolver async throws in
      #expect(try await pool.presentOrFormerAddresses(of: "known.example.net") == Self.found)
      let stalled = begin(["stall.example.org"], pool)
      await eventually { resolver.asked.count == 2 }
      #expect(try await pool.presentOrFormerAddresses(of: "known.example.net") == Self.found)
      resolver.letGo()
      for task in stalled { _ = try await task.value }
    }
    // Also where it has found none since: name servers that are away look like that.
    var queue = LookupQueue(limits: .init(threads: 1, perDomain: 1, perNew: 1))
    for addresses in [Self.found, []] {
      try queue.add("a.org", for: 1)
      _ = queue.next()
      _ = queue.finish("a.org", addresses)
    }
    #expect(queue.formerAddresses(of: "a.org") == Self.found)
  }

  @Test
  func `take no longer than a call to the host may`() async throws {
    try await with { pool, resolver async throws in
      let client = OutgoingClient(
        configuration: .init(), resolve: { try await pool.addresses(of: $0) }, isAllowed: { _ in true })
      try await withCleanUp {
        await #expect(throws: HTTPClientError.deadlineExceeded) {
          try await client.execute(
            HTTPClientRequest(url: "https://stall.example.org/"), limit: 1, timeout: .milliseconds(50))
        }
      } cleanUp: {
        await client.shutdown()
      }
      #expect(resolver.asked == ["stall.example.org"])
    }
  }
}
