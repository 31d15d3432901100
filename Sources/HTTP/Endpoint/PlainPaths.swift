internal import HTTPTypes
package import Hummingbird

/// What stands before the endpoints, which are found by path and method.
///
/// It refuses a path with bytes that are no printable ASCII, which stand in none (RFC 3986, 2): what finds the
/// endpoint of a path compares it by characters. And it gives methods that nobody knows one name, so that who uses one
/// on a path that is there is told which methods the path has.
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
    guard HTTPRequest.Method.known.contains(request.method) else {
      var head = request.head
      head.method = .unknown
      return try await responder.respond(to: Request(head: head, body: request.body), context: context)
    }
    return try await responder.respond(to: request, context: context)
  }
}
