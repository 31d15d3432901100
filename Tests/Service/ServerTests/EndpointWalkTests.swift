import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import ProviderSimulator
import Registrations
import TestService
import TestSupport
import Testing

@testable import Basics
@testable import HTTPClient
@testable import Server

/// Every endpoint that there is, with the worst texts in every place of a request: whatever is taken for
/// characters would take minutes in all.
@Suite struct EndpointWalkTests {
  private static let bytes = 64 * 1024

  private static let token = String(repeating: "0123456789abcdef", count: 4)
  private static let (realm, email, apiKey) = (
    "aa9c4b3e-5b6c-4d0f-8a7b-0123456789ab", "iago@example.org", "AbCdEfGhIjKlMnOpQrStUvWxYz012345"
  )

  /// Whoever calls: a chat server, a user, and an app with a subscription at the gateway.
  private struct Callers: Sendable {
    let server: String
    let subscription: (id: String, secret: String, endpoint: String)

    func path(_ route: String) -> String {
      route.replacing("{realm_uuid}", with: UUID().uuidString).replacing("{id}", with: subscription.id)
        .replacing("{endpoint}", with: subscription.endpoint).replacing(#/{[a-z_]+}/#, with: "1")
    }

    /// What one of them signs in with at a path.
    func authorization(_ path: String) -> String {
      if path.hasPrefix("/webpush/") { return "Bearer \(subscription.secret)" }
      let credentials = path.hasPrefix("/api/v1/remotes/") ? server : "\(email):\(apiKey)"
      return "Basic \(Data(credentials.utf8).base64EncodedString())"
    }
  }

  private func service(
    _ body: @escaping @Sendable (BouncerService, Callers) async throws -> Void
  ) async throws {
    let providers = try await SimulatedProviders.start()
    let settings = [
      "backend.token": Self.token, "nextcloud.enabled": "true", "http.rate_limit.per_address": "0",
      "server.rate_limit.per_user": "0", "http.public_url": "https://push.example.org",
      "bouncer.rate_limit.per_server": "0", "nextcloud.rate_limit.per_address": "0",
      "webpush_gateway.enabled": "true", "webpush_gateway.rate_limit.per_address": "0",
      "fcm.endpoint": providers.fcmEndpoint, "fcm.default_project": "default",
    ]
    try await withCleanUp {
      try await TestService.run(
        settings, clock: TestClock(nil), isWorking: true, keys: providers.writeKeys
      ) { test in
        let service = test.service
        let (server, key) = try await service.store.servers.add(
          hostname: Hostname("chat.example.org"), contactEmail: "admin@example.org")
        let realm = "/backend/v1/realms/\(Self.realm)"
        for (path, body) in [
          (realm, #"{"name":"Chat","url":"https://chat.example.org"}"#),
          ("\(realm)/users/1", #"{"email":"\#(Self.email)","api_key":"\#(Self.apiKey)","username":"iago"}"#),
        ] {
          let answer = try await test.call(
            .put, path, headers: [.authorization: "Bearer \(Self.token)"], body: body.utf8)
          #expect((200..<300).contains(answer.status))
        }
        let made = try await test.call(
          .post, "/webpush/v1/subscriptions", headers: [.contentType: "application/json"],
          body: #"{"token_kind":"fcm","token":"fcm:\#(String(repeating: "a", count: 60))"}"#.utf8)
        let member = { try #require(made.json[$0]?.string, "\(made.text)") }
        try await body(
          service,
          Callers(
            server: "\(server.uuid.uuidString.lowercased()):\(key)",
            subscription: (
              try member("id"), try member("secret"),
              try String(member("endpoint").split(separator: "/").last ?? "")
            )))
      }
    } cleanUp: {
      await providers.stop()
    }
  }

  /// Bodies, headers and queries that have the text where somebody may look at it.
  ///
  /// - Parameter authorization: a good one, which the first two requests have.
  private static func requests(
    _ text: String, _ authorization: String
  ) -> [(HTTPFields, query: String, body: [UInt8])] {
    let json = JSON.object([
      "a\(text)": .string(text), text: [.string(text)], "token": .string(text), "user_id": 1,
      "realm_uuid": .string(text), "push_requests": [["payload": [text: .string(text)]]],
      "notifications": [.string(text)], "user_uuid": .string("a\(text)"), "nextcloud": [text: .string(text)],
    ])
    let form: [(name: String, value: String)] = [
      ("a\(text)", text), (text, "1"), ("token", text), ("realm_uuid", text), ("hostname", "a\(text)"),
      ("notifications[0]", json.text), ("realm_counts", json.text), ("data", json.text), ("format", text),
      ("pushToken", text), ("login", text),
    ]
    // As long as a header may be.
    let header = text.utf8.count > 16_384 ? String(text.unicodeScalars.prefix(4096)) : text
    let hostile: HTTPFields = [
      .authorization: "Basic \(Data("a\(header):b\(header)".utf8).base64EncodedString())", .accept: header,
      .contentType: "application/\(header)", .userAgent: "Mozilla/5.0 (Android) Nextcloud-Talk v\(header)",
      .ocsAPIRequest: header, .ifNoneMatch: header, .xRequestID: header, .acceptLanguage: header,
      // Who shows what is wrong calls from elsewhere: after a while nobody there is let in.
      .xForwardedFor: "\(header), 192.0.2.\(Int.random(in: 1...254))",
    ]
    let query = String(decoding: Form.encode([(header, header), ("format", header)]), as: UTF8.self)
    func headers(_ authorization: String, _ type: String) -> HTTPFields {
      [.authorization: authorization, .contentType: type, .ocsAPIRequest: "true"]
    }
    let formType = "application/x-www-form-urlencoded"
    return [
      (headers(authorization, formType), "", Form.encode(form)),
      (headers(authorization, "application/json"), "", json.bytes),
      (headers("Bearer \(token)", "application/json"), query, json.bytes),
      (hostile, query, Form.encode(form)), (hostile, query, json.bytes),
    ]
  }

  @Test(arguments: [HostileText.marks, .unorderedMarks])
  func `No endpoint takes longer for the worst of texts`(_ kind: HostileText) async throws {
    try await service { service, callers in
      let text = kind.text(bytes: Self.bytes)
      #expect(service.endpoints.routes.count > 50)
      let all = [service.endpoints, service.operatorEndpoints].flatMap { endpoints in
        endpoints.routes.map { (endpoints, $0) }
      }
      // One that nothing works after comes last.
      let isLast = { (path: String) in path.hasSuffix("/deactivate") }
      var made: [String: [(HTTPFields, query: String, body: [UInt8])]] = [:]
      for (endpoints, route) in all.sorted(by: { !isLast($0.1.path) && isLast($1.1.path) }) {
        let path = callers.path(route.path)
        let authorization = callers.authorization(path)
        let requests = made[authorization] ?? Self.requests(text, authorization)
        made[authorization] = requests
        var statuses: [HTTPResponse.Status] = []
        let seconds = try await processSeconds {
          for (headers, query, body) in requests {
            let request = Request(
              head: .init(
                method: route.method, scheme: nil, authority: nil,
                path: query.isEmpty ? path : "\(path)?\(query)", headerFields: headers),
              body: .init(buffer: ByteBuffer(bytes: body)))
            let response = try await endpoints.responder.respond(
              to: request, context: WireContext(inProcess: service.logger))
            #expect(response.status != .internalServerError, "\(route)")
            statuses.append(response.status)
          }
        }
        // Without this, what stands behind the sign-in would not be walked at all.
        #expect(
          statuses.prefix(3).contains { $0 != .unauthorized && $0 != .tooManyRequests },
          "\(route): \(statuses.map(\.code))")
        // Five requests of a fraction of a second each.
        #expect(seconds < 10, "\(route)")
      }
    }
  }

  @Test(arguments: HostileText.allCases)
  func `No path takes longer for the worst of texts`(_ kind: HostileText) async throws {
    try await service { service, _ in
      let text = kind.text(bytes: Self.bytes)
      for path in ["/\(text)", "/api/v1/remotes\(text)/\(text)", "/ocs/\(text)"] {
        let request = Request(
          head: .init(method: .get, scheme: nil, authority: nil, path: path),
          body: .init(buffer: ByteBuffer()))
        let seconds = try await processSeconds {
          let response = try await service.endpoints.responder.respond(
            to: request, context: WireContext(inProcess: service.logger))
          #expect(response.status == .badRequest)
        }
        #expect(seconds < 5)
      }
    }
  }
}

extension HTTPField.Name {
  fileprivate static let ocsAPIRequest = HTTPField.Name("OCS-APIRequest")!  // a valid token
}
