package import HTTPTypes
package import Hummingbird
import NIOCore

extension Router where Context == WireContext {
  package typealias Handler = @Sendable (Request, WireContext) async throws -> Response
}

extension RouterMethods where Context == WireContext {
  /// Serves a path with one method. Any other method is told so before anything else is looked at,
  /// and `OPTIONS` tells which there are (`Documentation/Protocols/Zulip.md` 2.2).
  package func endpoint(
    _ path: RouterPath, _ method: HTTPRequest.Method, use handler: @escaping Router<WireContext>.Handler
  ) {
    endpoint(path, [method: handler])
  }

  /// Serves a path with several methods.
  ///
  /// - Parameter isPlain: whether who calls it expects plain text of a refusal.
  package func endpoint(
    _ path: RouterPath, _ handlers: [HTTPRequest.Method: Router<WireContext>.Handler], isPlain: Bool = false
  ) {
    let names = handlers.keys.map(\.rawValue).sorted()
    let allow = names.joined(separator: ", ")
    for method in HTTPRequest.Method.known + [.unknown] {
      if let handler = handlers[method] {
        on(path, method: method, use: handler)
      } else if method == .options {
        on(path, method: method) { _, _ in Response(status: .noContent, headers: [.allow: allow]) }
      } else {
        let document: JSON = [
          "result": "error", "msg": "Method Not Allowed", "allowed_methods": .array(names.map(JSON.string)),
        ]
        let body = isPlain ? Array("Method Not Allowed\n".utf8) : document.bytes
        let type = isPlain ? "text/plain; charset=utf-8" : "application/json"
        on(path, method: method) { _, _ in
          Response(
            status: .methodNotAllowed, headers: [.allow: allow, .contentType: type],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
        }
      }
    }
  }
}

extension HTTPRequest.Method {
  /// Those that an endpoint may have, or says that it has not; the most frequent first.
  static let known: [HTTPRequest.Method] = [.post, .get, .put, .delete, .head, .options, .patch, .trace]
  /// Stands for all others, which come from outside without bound.
  static let unknown = HTTPRequest.Method("UNKNOWN")!  // a valid token
}

/// Stands before the router. Refuses a path with bytes that are not printable ASCII, which no path may have (RFC 3986,
/// 2): the router compares paths by characters. Gives unknown methods one name, so that a call with one of them is told
/// which methods its path has.
package struct PlainPaths<Responder: HTTPResponder>: HTTPResponder {
  private let responder: Responder

  package init(_ responder: Responder) {
    self.responder = responder
  }

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
