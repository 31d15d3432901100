import Foundation
import HTTP
import HTTPTypes
import NextcloudProxy
import Registrations
import Sealing
import TestSupport
import Testing

/// Bodies that no client sends: each is answered, none with 500, and nothing of them stays.
@Suite("Nonsense at the Nextcloud proxy")
struct ProxyFuzzTests {
  /// `FUZZ_ROUNDS` sets how many bodies each endpoint gets.
  private static let rounds =
    ProcessInfo.processInfo.environment["FUZZ_ROUNDS"].flatMap(Int.init) ?? 500

  private static let snippets = ["&notifications[1]=", "&pushToken="]

  @Test(arguments: [HTTPRequest.Method.post, .delete], [true, false])
  func `is never answered with 500`(method: HTTPRequest.Method, isJSON: Bool) async throws {
    try await ProxyBench.test({ $0.configuration.rateLimitPerAddress = nil }) { bench in
      let phone = ProxyPhone()
      let victim = ProxyPhone()
      _ = try await victim.register(at: bench)
      let object = JSON.object(JSON.Object(phone.fields.map { .init($0.name, .string($0.value)) }))
      let seed = isJSON ? object.bytes : Form.encode(phone.fields)
      var nonsense = Nonsense(seed: 20_261_121, snippets: Self.snippets)
      for _ in 0..<Self.rounds {
        let body = nonsense.body(from: [seed])
        let answer = try await bench.call(
          method, "/devices", type: isJSON ? "application/json" : "application/x-www-form-urlencoded",
          body: body)
        #expect([200, 400, 403].contains(answer.status), "\(answer.status) \(Base64.encode(body))")
        #expect(answer.status == 200 || answer.message != nil)
      }
      // Whatever it was, it was this device's own or nothing.
      #expect(
        try await bench.number("SELECT COUNT(*) FROM registrations WHERE wire = 3") <= 2)
      #expect(try await bench.devices.lookup([victim.identifier]).first?.token == victim.token)
    }
  }

  @Test(arguments: [true, false])
  func `in the place of notifications spoils nothing`(isJSON: Bool) async throws {
    try await ProxyBench.test({ $0.configuration.rateLimitPerAddress = nil }) { bench in
      let phone = ProxyPhone()
      _ = try await phone.register(at: bench)
      let entries = [phone.entry(), phone.entry("voip"), ProxyPhone().entry("background")]
      let seed =
        isJSON
        ? JSON.object(["notifications": .array(entries.map(JSON.string))]).bytes
        : Form.encode(entries.enumerated().map { ("notifications[\($0)]", $1) })
      var nonsense = Nonsense(seed: 20_261_122, snippets: Self.snippets)
      for _ in 0..<Self.rounds {
        let body = nonsense.body(from: [seed])
        let answer = try await bench.call(
          .post, "/notifications", type: isJSON ? "application/json" : "application/x-www-form-urlencoded",
          body: body)
        #expect([200, 400].contains(answer.status), "\(answer.status) \(Base64.encode(body))")
        #expect((answer.unknown != nil) == (answer.status == 200))
        #expect((answer.failed != nil) == (answer.status == 200))
        #expect((answer.reason != nil) == (answer.status == 400))
      }
      #expect(try await bench.devices.lookup([phone.identifier]).first?.token == phone.token)
    }
  }
}
