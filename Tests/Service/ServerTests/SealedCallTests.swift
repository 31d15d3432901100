import Foundation
import HTTP
import HTTPTypes
import Sealing
import TestService
import Testing

@testable import Operator
@testable import Server

/// What this program's own commands ask of the service, at the operator's listener.
@Suite struct SealedCallTests {
  private static let token = "an-operators-token-of-some-length"

  private func ask(_ service: TestService, _ body: [UInt8]) async throws -> (status: Int, body: [UInt8]) {
    let answer = try await service.callOperator(.post, SealedCall.path, body: body)
    return (answer.status, answer.bytes)
  }

  @Test func `Who has the key is told, and needs no token`() async throws {
    try await TestService.run(["admin.token": Self.token, "server.name": "Ours"]) { service in
      let call = SealedCall(.state, service.service.store.storageKey)
      let answer = try await ask(service, call.body)
      #expect(answer.status == 200)
      let state = try #require(call.open(answer.body).flatMap(ReportedState.init))
      #expect(state.health.checks["database"] != nil)
      #expect(state.settings["server.name"] == "Ours")
      #expect(!state.settings.values.contains { $0.contains(Self.token) })
      // Nobody reads it on the way.
      #expect(!String(decoding: answer.body, as: UTF8.self).contains("server.name"))

      let deliveries = SealedCall(.deliveries("0123456789abcdef"), service.service.store.storageKey)
      #expect(deliveries.open(try await ask(service, deliveries.body).body)?["deliveries"] == [])
    }
  }

  @Test func `Who has not is told nothing, and is not counted as damage`() async throws {
    try await TestService.run { service in
      let key = service.service.store.storageKey
      let own = SealedCall(.state, key)
      var altered = own.body
      altered[altered.count - 1] ^= 1
      let another = SealedCall(.state, StorageKey.generate()).body
      for body in [[], Array("{}".utf8), another, altered, own.seal(["ask": "state"])] {
        let answer = try await ask(service, body)
        #expect(answer.status == 403 && answer.body.count < 200)
      }
      #expect(try await ask(service, [UInt8](repeating: 1, count: 1025)).status == 413)
      #expect(key.failures.isEmpty)
    }
  }

  @Test func `An answer is good for its own question and key`() async throws {
    try await TestService.run { service in
      let key = service.service.store.storageKey
      let (first, second) = (SealedCall(.state, key), SealedCall(.state, key))
      #expect(first.body != second.body)
      let answer = try await ask(service, first.body).body
      #expect(first.open(answer) != nil)
      // An earlier answer, the question itself, or another program's answer.
      #expect(second.open(answer) == nil)
      #expect(first.open(first.body) == nil)
      #expect(first.open(Array(#"{"health":{"checks":{}}}"#.utf8)) == nil)
      let stranger = try #require(SealedCall(received: first.body, key))
      #expect(SealedCall(received: first.body, .generate()) == nil)
      #expect(stranger.question == .state)
      #expect(key.failures.isEmpty)
    }
  }

  @Test func `Each node with the key is asked alike`() async throws {
    let bytes = [UInt8](repeating: 3, count: 32)
    let keys: @Sendable (URL) throws -> Void = { folder in
      let file = folder.appending(path: "storage.key")
      try Data(Base64.encode(bytes).utf8).write(to: file)
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    }
    for name in ["One", "Two"] {
      try await TestService.run(["server.name": name], keys: keys) { service in
        let call = SealedCall(.state, StorageKey(bytes: bytes))
        let state = call.open(try await ask(service, call.body).body).flatMap(ReportedState.init)
        #expect(state?.settings["server.name"] == name)
      }
    }
  }
}
