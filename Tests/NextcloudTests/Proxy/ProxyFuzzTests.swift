import Foundation
import HTTPTypes
import Nextcloud
import Registrations
import Sealing
import Testing
import Wire

/// Bodies that no client sends: each is answered, none with 500, and nothing of them stays.
@Suite("Nonsense at the Nextcloud proxy")
struct ProxyFuzzTests {
  /// `FUZZ_ROUNDS` sets how many bodies each endpoint gets.
  private static let rounds =
    ProcessInfo.processInfo.environment["FUZZ_ROUNDS"].flatMap(Int.init) ?? 500

  /// SplitMix64: small, even, and the same everywhere.
  private struct Generator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
      state &+= 0x9e37_79b9_7f4a_7c15
      var value = state
      value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
      value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
      return value ^ (value >> 31)
    }
  }

  private static let snippets: [[UInt8]] = [
    "null", "true", "-1", "1e999", "\"\"", "[]", "{}", "[[[[", "\\u0000", "\\ud800", "%00", "%ff", "%", "&",
    "=", "+", "\0", "\u{feff}", "'", "\"", "&notifications[1]=", "&pushToken=", "%0A", "\u{1f4a9}",
  ].map { Array($0.utf8) }

  private func mutate(_ body: inout [UInt8], with generator: inout Generator) {
    let start = Int.random(in: 0...body.count, using: &generator)
    let end = min(body.count, start + Int.random(in: 0..<12, using: &generator))
    switch Int.random(in: 0..<6, using: &generator) {
    case 0: body.removeSubrange(start..<end)
    case 1: body.insert(contentsOf: Self.snippets.randomElement(using: &generator) ?? [], at: start)
    case 2: body.replaceSubrange(start..<end, with: Self.snippets.randomElement(using: &generator) ?? [])
    case 3: body.insert(contentsOf: body[start..<end], at: end)
    case 4: body = Array(body[..<start])
    default: if start < body.count { body[start] = UInt8.random(in: 0...255, using: &generator) }
    }
  }

  @Test("is never answered with 500", arguments: [HTTPRequest.Method.post, .delete], [true, false])
  func devices(method: HTTPRequest.Method, isJSON: Bool) async throws {
    try await ProxyBench.test({ $0.configuration.rateLimitPerAddress = nil }) { bench in
      let phone = ProxyPhone()
      let victim = ProxyPhone()
      _ = try await victim.register(at: bench)
      let object = JSON.object(JSON.Object(phone.fields.map { .init($0.name, .string($0.value)) }))
      let seed = isJSON ? object.bytes : Form.encode(phone.fields + [("cloudId", "a@b.example")])
      var generator = Generator(state: 20_261_121)
      for _ in 0..<Self.rounds {
        var body = seed
        for _ in 0..<Int.random(in: 1...4, using: &generator) { mutate(&body, with: &generator) }
        let answer = try await bench.call(
          method, "/devices", type: isJSON ? "application/json" : "application/x-www-form-urlencoded",
          body: body)
        #expect([200, 400, 403].contains(answer.status), "\(answer.status) \(Base64.encode(body))")
        #expect(answer.status == 200 || answer.message != nil)
      }
      // Whatever it was, it was this device's own or nothing.
      #expect(
        try await bench.number("SELECT COUNT(*) FROM nextcloud_devices") <= 2)
      #expect(try await bench.devices.lookup([victim.identifier]).first?.token == victim.token)
    }
  }

  @Test("in the place of notifications spoils nothing", arguments: [true, false])
  func notifications(isJSON: Bool) async throws {
    try await ProxyBench.test({ $0.configuration.rateLimitPerAddress = nil }) { bench in
      let phone = ProxyPhone()
      _ = try await phone.register(at: bench)
      let entries = [phone.entry(), phone.entry("voip"), ProxyPhone().entry("background")]
      let seed =
        isJSON
        ? JSON.object(["notifications": .array(entries.map(JSON.string))]).bytes
        : Form.encode(entries.enumerated().map { ("notifications[\($0)]", $1) })
      var generator = Generator(state: 20_261_122)
      for _ in 0..<Self.rounds {
        var body = seed
        for _ in 0..<Int.random(in: 1...4, using: &generator) { mutate(&body, with: &generator) }
        let answer = try await bench.call(
          .post, "/notifications", type: isJSON ? "application/json" : "application/x-www-form-urlencoded",
          body: body)
        #expect([200, 400].contains(answer.status), "\(answer.status) \(Base64.encode(body))")
        #expect((answer.unknown != nil) == (answer.status == 200))
        #expect((answer.failed != nil) == (answer.status == 200))
        #expect((answer.message != nil) == (answer.status == 400))
      }
      #expect(try await bench.devices.lookup([phone.identifier]).first?.token == phone.token)
    }
  }
}
