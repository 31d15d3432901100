import Foundation
import HTTPTypes
import Registrations
import TestService
import TestSupport
import Testing

@testable import Server

/// The built-in chat-server side with the service's own bouncer.
@Suite struct BuiltInServerTests {
  private static let realm = "/backend/v1/realms/aa9c4b3e-5b6c-4d0f-8a7b-0123456789ab"
  private static let (email, apiKey) = ("iago@example.org", "AbCdEfGhIjKlMnOpQrStUvWxYz012345")
  private static let token = String(repeating: "0123456789abcdef", count: 4)

  @Test func `Calls the bouncer without a key and until it is deactivated`() async throws {
    try await TestService.run(
      ["backend.token": Self.token], clock: TestClock(nil), isWorking: true
    ) { test in
      for (path, body) in [
        (Self.realm, #"{"name":"Chat","url":"https://chat.example.org"}"#),
        ("\(Self.realm)/users/1", #"{"email":"\#(Self.email)","api_key":"\#(Self.apiKey)"}"#),
      ] {
        let answer = try await test.call(
          .put, path, headers: [.authorization: "Bearer \(Self.token)"], body: body.utf8)
        #expect((200..<300).contains(answer.status))
      }
      /// An old app tells of its token, and the bouncer hears of it before the app is answered.
      func tell() async throws -> Int {
        let credentials = Data("\(Self.email):\(Self.apiKey)".utf8).base64EncodedString()
        return try await test.call(
          .post, "/api/v1/users/me/android_gcm_reg_id",
          headers: [
            .contentType: "application/x-www-form-urlencoded", .authorization: "Basic \(credentials)",
          ], body: "token=abc".utf8
        ).status
      }
      try await Store.with(test.configuration) { store in
        let server = try #require(try await store.servers.find(hostname: RemoteServers.builtInHostname))
        _ = try await store.servers.transfer(server)
        #expect(try await tell() == 200)
        let summary = try await store.servers.all().first { $0.server.id == server.id }
        #expect(summary?.legacyRegistrations == 1)
        #expect(summary?.realms == 1)

        try await store.servers.setDeactivated(server.id, true)
        #expect(try await tell() == 400)
        try await store.servers.setDeactivated(server.id, false)
        #expect(try await tell() == 200)
      }
    }
  }
}
