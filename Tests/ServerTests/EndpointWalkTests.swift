import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Registrations
import TestSupport
import Testing
import Wire

@testable import Server

/// Every endpoint that there is, with the worst texts in every place of a request: whatever is taken for
/// characters would take minutes in all.
@Suite struct EndpointWalkTests {
  private static let bytes = 64 * 1024

  private func service(_ body: (BouncerService, _ credentials: String) async throws -> Void) async throws {
    try await withService(["backend.token": Self.token, "nextcloud.enabled": "true"]) {
      service, configuration in
      let (server, key) = try await Store.with(configuration) {
        try await $0.servers.add(hostname: Hostname("chat.example.org"), contactEmail: "admin@example.org")
      }
      try await body(service, "\(server.uuid.uuidString.lowercased()):\(key)")
    }
  }

  private static let token = String(repeating: "0123456789abcdef", count: 4)

  /// Bodies, headers and queries that have the text where somebody may look at it.
  ///
  /// - Parameter credentials: a chat server's, as for Basic.
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
      .ocsAPIRequest: header, .ifNoneMatch: header, .xRequestID: header, .xForwardedFor: header,
      .acceptLanguage: header,
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
      (headers("Bearer \(header)", formType), query, Form.encode(form)), (hostile, query, json.bytes),
    ]
  }

  @Test(arguments: [HostileText.marks, .unorderedMarks])
  func `No endpoint takes longer for the worst of texts`(_ kind: HostileText) async throws {
    try await service { service, credentials in
      let requests = Self.requests(kind.text(bytes: Self.bytes), credentials)
      #expect(service.endpoints.routes.count > 50)
      for route in service.endpoints.routes {
        let path = route.path.replacing("{realm_uuid}", with: UUID().uuidString)
          .replacing(#/{[a-z_]+}/#, with: "1")
        let start = ContinuousClock.now
        for (headers, query, body) in requests {
          let request = Request(
            head: .init(
              method: route.method, scheme: nil, authority: nil,
              path: query.isEmpty ? path : "\(path)?\(query)", headerFields: headers),
            body: .init(buffer: ByteBuffer(bytes: body)))
          let response = try await service.endpoints.responder.respond(
            to: request, context: WireContext(inProcess: service.logger))
          #expect(response.status != .internalServerError, "\(route)")
        }
        // Five requests of a fraction of a second each, on a machine that has other things to do, too.
        #expect(ContinuousClock.now - start < .seconds(20), "\(route)")
      }
    }
  }

  @Test(arguments: HostileText.allCases)
  func `No path takes longer for the worst of texts`(_ kind: HostileText) async throws {
    try await service { service, _ in
      let text = kind.text(bytes: Self.bytes)
      for path in ["/\(text)", "/api/v1/remotes\(text)/\(text)", "/ocs/\(text)"] {
        let start = ContinuousClock.now
        let request = Request(
          head: .init(method: .get, scheme: nil, authority: nil, path: path),
          body: .init(buffer: ByteBuffer()))
        let response = try await service.endpoints.responder.respond(
          to: request, context: WireContext(inProcess: service.logger))
        #expect(response.status == .badRequest)
        #expect(ContinuousClock.now - start < .seconds(2))
      }
    }
  }
}

extension HTTPField.Name {
  fileprivate static let ocsAPIRequest = HTTPField.Name("OCS-APIRequest")!  // a valid token
}
