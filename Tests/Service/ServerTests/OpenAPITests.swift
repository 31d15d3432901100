import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import NIOCore
import TestService
import Testing
import Yams

@testable import Server

/// `Documentation/OpenAPI` and what the program serves.
@Suite struct OpenAPITests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../../Documentation/OpenAPI")
  private static let token = String(repeating: "0123456789abcdef", count: 4)

  private struct Malformed: Error {
    let file: String
  }

  @Test func `Every endpoint is described, and every description is of an endpoint`() async throws {
    let settings = TestService.everything(Self.token, ["admin.token": Self.token])
    let files = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path).filter {
      $0.hasSuffix(".yaml")
    }
    let ofOperator = files.filter { $0 == "Operator.yaml" }
    let others = files.filter { $0 != "Operator.yaml" }
    try await TestService.run(settings) { test in
      for (endpoints, files) in [
        (test.service.endpoints, others), (test.service.operatorEndpoints, ofOperator),
      ] {
        let served = try await Self.served(endpoints, test.service)
        let described = try Self.described(files)
        #expect(served.subtracting(described).sorted() == [], "served, and not described")
        #expect(described.subtracting(served).sorted() == [], "described, and not served")
        #expect(!served.isEmpty)
      }
    }
  }

  /// `GET /path` for each endpoint, as each path says itself when it is asked with `OPTIONS`.
  private static func served(_ endpoints: Endpoints, _ service: BouncerService) async throws -> Set<String> {
    var served: Set<String> = []
    for path in Set(endpoints.routes.map(\.path)) {
      let request = Request(
        head: .init(
          method: .options, scheme: nil, authority: nil, path: path.replacing(/{[a-z_]+}/, with: "1"),
          headerFields: [.authorization: "Bearer \(token)"]),
        body: .init(buffer: ByteBuffer()))
      let answer = try await endpoints.responder.respond(
        to: request, context: WireContext(inProcess: service.logger))
      let methods = try #require(answer.headers[.allow], "\(path) was not made by Router.endpoint")
      served.formUnion(methods.split(separator: ", ").map { "\($0) \(plain(path))" })
    }
    return served
  }

  /// The same of descriptions, with every address that they give for a path.
  private static func described(_ files: [String]) throws -> Set<String> {
    var described: Set<String> = []
    for file in files {
      let text = try String(contentsOf: folder.appending(path: file), encoding: .utf8)
      guard let root = try Yams.load(yaml: text) as? [String: Any] else { throw Malformed(file: file) }
      for (path, item) in root["paths"] as? [String: [String: Any]] ?? [:] {
        guard let servers = (item["servers"] ?? root["servers"]) as? [[String: Any]] else {
          throw Malformed(file: file)
        }
        for server in servers {
          guard let url = server["url"] as? String else { throw Malformed(file: file) }
          let base = url.replacing(/^https?:\/\/[^\/]+/, with: "")
          for method in item.keys where ["get", "put", "post", "delete"].contains(method) {
            described.insert("\(method.uppercased()) \(plain(base + path))")
          }
        }
      }
    }
    return described
  }

  /// A path without what its parameters are called.
  private static func plain(_ path: String) -> String {
    let path = path.replacing(/{[A-Za-z_]+}/, with: "{}")
    return path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
  }
}
