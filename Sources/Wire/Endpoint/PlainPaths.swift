package import Hummingbird

/// Refuses a path with bytes that are no printable ASCII, which stand in none (RFC 3986, 2): what finds the
/// endpoint of a path compares it by characters.
package struct PlainPaths<Responder: HTTPResponder>: HTTPResponder {
  private let responder: Responder

  /// Answers through `responder` what it does not refuse.
  package init(_ responder: Responder) {
    self.responder = responder
  }

  /// Answers a request.
  package func respond(to request: Request, context: Responder.Context) async throws -> Response {
    let path = (request.head.path ?? "").utf8.prefix { $0 != UInt8(ascii: "?") }
    guard path.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      return APIError("Malformed request").response
    }
    return try await responder.respond(to: request, context: context)
  }
}
