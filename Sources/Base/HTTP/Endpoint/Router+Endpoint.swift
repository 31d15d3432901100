package import HTTPTypes
package import Hummingbird
import NIOCore

extension RouterMethods where Context == WireContext {
  /// Serves a path with one method. Other methods are refused before anything else is checked, and `OPTIONS`
  /// lists the allowed ones.
  package func endpoint(
    _ path: RouterPath, _ method: HTTPRequest.Method, use handler: @escaping Routes.Handler
  ) {
    endpoint(path, [method: handler])
  }

  /// Serves a path with several methods.
  ///
  /// - Parameter isPlain: whether errors are plain text instead of JSON.
  package func endpoint(
    _ path: RouterPath, _ handlers: [HTTPRequest.Method: Routes.Handler], isPlain: Bool = false
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
  /// The methods that an endpoint may have or refuses by name, the most frequent first. HEAD is answered as GET before
  /// the router.
  static let known: [HTTPRequest.Method] = [.post, .get, .put, .delete, .options, .patch, .trace]
  /// The replacement for all other methods, whose names callers choose.
  static let unknown = HTTPRequest.Method("UNKNOWN")!  // a valid token
}

/// Runs before the router. Refuses a path with bytes that are not printable ASCII (RFC 3986, 2), because the
/// router compares paths by characters. Replaces unknown methods by one name, so that they get the error that
/// lists the allowed methods. Answers HEAD as GET, without the content (RFC 9110 9.3.2): a client takes whatever
/// follows the head for the beginning of its next answer.
package struct PlainPaths<Responder: HTTPResponder>: HTTPResponder {
  private let responder: Responder

  package init(_ responder: Responder) {
    self.responder = responder
  }

  @concurrent package func respond(to request: Request, context: Responder.Context) async throws -> Response {
    guard request.method == .head else { return try await answer(request, context) }
    return try await answer(request.replacingMethod(by: .get), context).createHeadResponse()
  }

  @concurrent private func answer(_ request: Request, _ context: Responder.Context) async throws -> Response {
    let path = (request.head.path ?? "").utf8.prefix { $0 != UInt8(ascii: "?") }
    guard path.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      return APIError("Malformed request").response
    }
    let isKnown = HTTPRequest.Method.known.contains(request.method)
    return try await responder.respond(
      to: isKnown ? request : request.replacingMethod(by: .unknown), context: context)
  }
}

extension Request {
  fileprivate func replacingMethod(by method: HTTPRequest.Method) -> Request {
    var head = head
    head.method = method
    return Request(head: head, body: body)
  }
}
