import Delivery
import Foundation
import HTTP
import ProviderSimulator
import Registrations
import Sealing
import TestSupport
import Testing

@testable import NextcloudProxy

/// Firebase installation ids take the place of registration tokens, and SDKs make two mistakes: they hand out an id that
/// Google does not know yet, or the former token where an id is due.
@Suite("A phone whose token becomes an installation id")
struct InstallationIDTests {
  private static let id = "cR7dQw4w9WgXcQ-_AbCd09"

  @Test
  func `keeps its registration, which says since when`() async throws {
    try await ProxyBench.test { bench in
      var phone = ProxyPhone()
      #expect(try await phone.register(at: bench).status == 200)
      #expect(try await Self.found(on: bench).isInstallationID == false)
      #expect(try await Self.found(on: bench).tokenChangedAt == nil)
      bench.clock.advance(60)
      phone.token = Self.id
      for _ in 0..<2 {
        #expect(try await phone.register(at: bench).status == 200)
        bench.clock.advance(60)
      }
      let found = try await Self.found(on: bench)
      #expect(found.isInstallationID == true)
      let changed = try #require(found.tokenChangedAt)
      #expect(found.registeredAt.timeIntervalSince(changed).rounded() == 60)
      #expect(try await bench.notify([phone.entry()]).failed == 0)
      #expect(bench.simulator.deliveries().map(\.token) == [Self.id])
    }
  }

  @Test
  func `and back again before Google knows the id gets once, at its token, what waited`() async throws {
    try await ProxyBench.test { bench in
      var phone = ProxyPhone()
      let token = phone.token
      phone.token = Self.id
      bench.simulator.setToken(Self.id, TokenRule(status: 404))
      #expect(try await phone.register(at: bench).status == 200)
      let answer = try await bench.notify([phone.entry()])
      #expect(answer.failed == 0 && answer.unknown == [])
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 1)
      bench.clock.advance(1)
      phone.token = token
      #expect(try await phone.register(at: bench).status == 200)
      #expect(try await bench.notify([phone.entry()]).failed == 0)
      try await eventually {
        bench.clock.advance(30)
        return try await bench.number("SELECT COUNT(*) FROM outbox") == 0
      }
      #expect(bench.simulator.deliveries().map(\.token) == [token, token])
      #expect(try await bench.number("SELECT COUNT(*) FROM registrations") == 1)
    }
  }

  /// What becomes of a phone's token once its app is updated.
  private enum Fault: CaseIterable {
    /// The app hands out the id, which Google knows.
    case none
    /// It hands out the former token where the id is due, and the id when it is started again.
    case formerToken
    /// It hands out an id that Google knows only some time later.
    case earlyID
    /// It hands out an id that Google never knows, the former token when it is started again, and another id in the end.
    case both
  }

  /// `INSTALLATION_PHONES` sets how many phones there are.
  private static let phones =
    ProcessInfo.processInfo.environment["INSTALLATION_PHONES"].flatMap(Int.init) ?? 80

  @Test
  func `is one of many that get each notification once, whatever their SDK does wrong`() async throws {
    try await ProxyBench.test({
      $0.settings["nextcloud.new_devices_per_address"] = "0"
      $0.settings["nextcloud.rate_limit.per_address"] = "0"
    }) { bench in
      var phones = (0..<Self.phones).map { _ in ProxyPhone() }
      let ids = (0..<Self.phones).map { "c" + String(format: "%021d", $0) }
      let otherIDs = (0..<Self.phones).map { "d" + String(format: "%021d", $0) }
      let tokens = phones.map(\.token)
      let faults = phones.indices.map { Fault.allCases[$0 % Fault.allCases.count] }
      // Minutes until Google knows an id: less than the hour for which it is waited for.
      let delays = faults.map { $0 == .earlyID ? Int.random(in: 5...50) : 0 }
      var sent: [String: Int] = [:]
      func register(_ index: Int, _ token: String) async throws {
        phones[index].token = token
        #expect(try await phones[index].register(at: bench).status == 200)
      }
      func notifyAll() async throws {
        for start in stride(from: 0, to: phones.count, by: 100) {
          let part = start..<min(start + 100, phones.count)
          let subjects = part.map { _ in ProxyPhone.ciphertext() }
          for (index, subject) in zip(part, subjects) { sent[Base64.encode(subject)] = index }
          let answer = try await bench.notify(zip(part, subjects).map { phones[$0].entry(subject: $1) })
          #expect(answer.failed == 0 && answer.unknown == [])
        }
      }
      bench.clock.stop()
      for index in phones.indices { try await register(index, tokens[index]) }
      try await notifyAll()

      // Their apps are updated.
      for index in phones.indices {
        if [.earlyID, .both].contains(faults[index]) {
          bench.simulator.setToken(ids[index], TokenRule(status: 404))
        }
        try await register(index, faults[index] == .formerToken ? tokens[index] : ids[index])
      }
      for minute in 0..<60 {
        if minute.isMultiple(of: 40) { try await notifyAll() }
        for index in phones.indices {
          if minute > 0, minute == delays[index] { bench.simulator.setToken(ids[index], nil) }
          // They are started again.
          if minute == 15, faults[index] == .both { try await register(index, tokens[index]) }
          if minute == 30, faults[index] == .formerToken { try await register(index, ids[index]) }
          if minute == 55, faults[index] == .both { try await register(index, otherIDs[index]) }
        }
        try await bench.pass(60)
      }
      try await notifyAll()
      for _ in 0..<10 { try await bench.pass(60) }
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 0)

      var arrived: [String: Int] = [:]
      for delivery in bench.simulator.deliveries() {
        let message = try JSON.parse(String(decoding: delivery.payload, as: UTF8.self))["message"]
        arrived[message?["data"]?["subject"]?.string ?? "", default: 0] += 1
      }
      #expect(sent.count == Self.phones * 4)
      #expect(sent.keys.count { arrived[$0] == nil } == 0)
      #expect(arrived.values.count { $0 > 1 } == 0 && arrived.count == sent.count)
      #expect(try await bench.number("SELECT COUNT(*) FROM registrations") == Int64(Self.phones))
    }
  }

  private static func found(on bench: ProxyBench) async throws -> FoundDevice {
    let search = DeviceSearch(
      database: bench.database, storageKey: StorageKey(bytes: [UInt8](repeating: 7, count: 32)))
    let id = try await bench.number("SELECT MAX(id) FROM registrations")
    return try #require(try await search.find(.registration(wire: 3, id: Int64(id))).devices.first)
  }
}
