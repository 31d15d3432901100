import Basics
import Delivery
import Foundation
import HTTP
import ProviderSimulator
import TestSupport
import Testing

@testable import NextcloudProxy

/// Strangers send thousands of notifications in each request, from four addresses, beside a server with a few.
@Suite("A long request to the push proxy", .serialized)
struct LongRequestTests {
  @Test
  func `does not keep another server waiting until it is done`() async throws {
    try await ProxyBench.test { bench in
      let (stranger, phone) = (ProxyPhone(), ProxyPhone(user: ProxyPhone.users[1]))
      #expect(try await stranger.register(at: bench).status == 200)
      #expect(try await phone.register(at: bench).status == 200)
      let entry = stranger.entry()
      let long = (0..<2000).map { _ in entry }
      let own = (0..<150).map { _ in phone.entry() }
      let done = Counter()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 1...4 {
          group.addTask {
            let answer = try await bench.notify(long, address: "192.0.2.\(number)")
            #expect(answer.status == 200 && answer.failed == 0, "\(answer.text)")
            done.increment()
          }
        }
        // A part of each of theirs is there.
        await eventually("four parts under way") { bench.proxy.places.taken >= 2000 }
        let answer = try await bench.notify(own, address: "192.0.2.9")
        #expect(answer.status == 200 && answer.failed == 0, "\(answer.text)")
        #expect(done.value == 0)
        try await group.waitForAll()
      }
    }
  }

  @Test(.bench)
  func `names each unknown device once, however many parts it has`() async throws {
    let bench = Fixture<ProxyBench>.current
    let (known, unknown) = (ProxyPhone(), ProxyPhone())
    #expect(try await known.register(at: bench).status == 200)
    let (good, bad) = (known.entry(), unknown.entry())
    let answer = try await bench.notify((0..<1300).map { $0.isMultiple(of: 2) ? good : bad })
    #expect(answer.failed == 650 && answer.unknown == [unknown.identifierText])
    #expect(bench.simulator.deliveries().count == 1)
  }
}
