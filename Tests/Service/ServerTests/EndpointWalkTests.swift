import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
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

  /// A service with a chat server and a user; `signIn` is what each of them signs in with, by an endpoint's path.
  private func service(
    _ body:
      @escaping @Sendable (
        BouncerService, _ signIn: @Sendable (_ path: String) -> String
      ) async throws -> Void
  ) async throws {
    let settings = [
      "backend.token": Self.token, "nextcloud.enabled": "true", "http.rate_limit.per_address": "0",
      "server.rate_limit.per_user": "0",
      "bouncer.rate_limit.per_server": "0", "nextcloud.rate_limit.per_address": "0",
    ]
    try await TestService.run(settings, clock: TestClock(nil), isWorking: true) { test in
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
      try await body(service) { path in
        path.hasPrefix("/api/v1/remotes/")
          ? "\(server.uuid.uuidString.lowercased()):\(key)" : "\(Self.email):\(Self.apiKey)"
      }
    }
  }

  /// Bodies, headers and queries that have the text where somebody may look at it.
  ///
  /// - Parameter credentials: good ones, as for Basic; the first two requests have them.
  private static func requests(
    _ text: String, _ credentials: String
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
    let signed = "Basic \(Data(credentials.utf8).base64EncodedString())"
    return [
      (headers(signed, formType), "", Form.encode(form)),
      (headers(signed, "application/json"), "", json.bytes),
      (headers("Bearer \(token)", "application/json"), query, json.bytes),
      (hostile, query, Form.encode(form)), (hostile, query, json.bytes),
    ]
  }

  @Test(arguments: [HostileText.marks, .unorderedMarks])
  func `No endpoint takes longer for the worst of texts`(_ kind: HostileText) async throws {
    try await service { service, signIn in
      let text = kind.text(bytes: Self.bytes)
      #expect(service.endpoints.routes.count > 50)
      let all = [service.endpoints, service.operatorEndpoints].flatMap { endpoints in
        endpoints.routes.map { (endpoints, $0) }
      }
      // One that nothing works after comes last.
      let isLast = { (path: String) in path.hasSuffix("/deactivate") }
      var made: [String: [(HTTPFields, query: String, body: [UInt8])]] = [:]
      for (endpoints, route) in all.sorted(by: { !isLast($0.1.path) && isLast($1.1.path) }) {
        let path = route.path.replacing("{realm_uuid}", with: UUID().uuidString)
          .replacing(#/{[a-z_]+}/#, with: "1")
        let credentials = signIn(path)
        let requests = made[credentials] ?? Self.requests(text, credentials)
        made[credentials] = requests
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
