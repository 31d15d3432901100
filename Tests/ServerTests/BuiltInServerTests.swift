import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import Registrations
import Testing
import Wire

@testable import Server

/// The built-in chat-server side with the service's own bouncer.
@Suite struct BuiltInServerTests {
  private static let realm = "/backend/v1/realms/aa9c4b3e-5b6c-4d0f-8a7b-0123456789ab"
  private static let (email, apiKey) = ("iago@example.org", "AbCdEfGhIjKlMnOpQrStUvWxYz012345")
  private static let token = String(repeating: "0123456789abcdef", count: 4)

  private func call(
    _ service: BouncerService, _ method: HTTPRequest.Method, _ path: String, _ body: String,
    type: String = "application/x-www-form-urlencoded", authorization: String
  ) async throws -> HTTPResponse.Status {
    let request = Request(
      head: .init(
        method: method, scheme: nil, authority: nil, path: path,
        headerFields: [.contentType: type, .authorization: authorization]),
      body: .init(buffer: ByteBuffer(string: body)))
    return try await service.endpoints.responder.respond(
      to: request, context: WireContext(inProcess: service.logger)
    ).status
  }

  @Test func callsTheBouncerWithoutAKeyAndUntilItIsDeactivated() async throws {
    try await withService(["backend.token": Self.token]) { service, configuration in
      for (path, body) in [
        (Self.realm, #"{"name":"Chat","url":"https://chat.example.org"}"#),
        ("\(Self.realm)/users/1", #"{"email":"\#(Self.email)","api_key":"\#(Self.apiKey)"}"#),
      ] {
        #expect(
          try await call(
            service, .put, path, body, type: "application/json", authorization: "Bearer \(Self.token)"
          ).kind == .successful)
      }
      /// An old app tells of its token, and the bouncer hears of it before the app is answered.
      func tell() async throws -> HTTPResponse.Status {
        let credentials = Data("\(Self.email):\(Self.apiKey)".utf8).base64EncodedString()
        return try await call(
          service, .post, "/api/v1/users/me/android_gcm_reg_id", "token=abc",
          authorization: "Basic \(credentials)")
      }
      try await Store.with(configuration) { store in
        let server = try #require(try await store.servers.find(hostname: BuiltInServer.hostname))
        _ = try await store.servers.rotateKey(server.id, graceForPrevious: false)
        #expect(try await tell() == .ok)
        let summary = try await store.servers.all().first { $0.server.id == server.id }
        #expect(summary?.legacyRegistrations == 1)
        #expect(summary?.realms == 1)

        try await store.servers.setDeactivated(server.id, true)
        #expect(try await tell() == .badRequest)
        try await store.servers.setDeactivated(server.id, false)
        #expect(try await tell() == .ok)
      }
    }
  }
}
