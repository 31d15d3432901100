package import HTTPTypes
package import Hummingbird
import NIOCore

extension Routes {
  /// Serves a path with one method. Other methods are refused before anything else is checked, and `OPTIONS`
  /// lists the allowed ones.
  package func endpoint(
    _ path: RouterPath, _ method: HTTPRequest.Method, use handler: @escaping Handler
  ) {
    endpoint(path, [method: handler])
  }

  /// Serves a path with several methods.
  ///
  /// - Parameter isPlain: whether errors are plain text instead of JSON.
  package func endpoint(
    _ path: RouterPath, _ handlers: [HTTPRequest.Method: Handler], isPlain: Bool = false
  ) {
    let names = handlers.keys.map(\.rawValue).sorted()
    let allow = names.joined(separator: ", ")
    for method in HTTPRequest.Method.known + [.unknown] {
      if let handler = handlers[method] {
        add(path, method, handler)
      } else if method == .options {
        add(path, method) { _, _ in Response(status: .noContent, headers: [.allow: allow]) }
      } else {
        let document: JSON = [
          "result": "error", "msg": "Method Not Allowed", "allowed_methods": .array(names.map(JSON.string)),
        ]
        let body = isPlain ? Array("Method Not Allowed\n".utf8) : document.bytes
        let type = isPlain ? "text/plain; charset=utf-8" : "application/json"
        add(path, method) { _, _ in
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
