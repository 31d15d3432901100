package import HTTPTypes
package import Hummingbird

/// The endpoints of a listener.
///
/// A path without parameters is found in a dictionary. Hummingbird's router, which has all of them, compares a path part by part
/// with what there is: for a notification that took 4 % of its instructions.
package final class Routes {
  package typealias Handler = @Sendable (Request, WireContext) async throws -> Response

  /// What all groups of a listener's endpoints have in common.
  private final class Table {
    let router = Router(context: WireContext.self)
    var fixed: [Name: [HTTPRequest.Method: Endpoint]] = [:]
  }

  /// A handler in a table. By itself it would be called through a thunk, which leaves the executor.
  fileprivate struct Endpoint {
    let handler: Handler
  }

  private let table: Table
  private let base: RouterPath
  /// The first is the outermost.
  private var layers: [any Layer]

  package convenience init() { self.init(Table(), "", []) }

  private init(_ table: Table, _ base: RouterPath, _ layers: [any Layer]) {
    self.table = table
    self.base = base
    self.layers = layers
  }

  /// Each route's path and method.
  package var all: [(path: String, method: HTTPRequest.Method)] {
    table.router.routes.map { ("\($0.path)", $0.method) }
  }

  /// Adds a layer around the endpoints that are added from now on, and around what has no endpoint.
  package func add(_ layer: any Layer) { layers.append(layer) }

  /// Endpoints whose paths begin with this one, with further layers around them.
  package func group(_ path: RouterPath, _ layers: any Layer...) -> Routes {
    Routes(table, base.appendingPath(path), self.layers + layers)
  }

  func add(_ path: RouterPath, _ method: HTTPRequest.Method, _ handler: @escaping Handler) {
    let path = base.appendingPath(path)
    let handler = surrounded(handler)
    table.router.on(path, method: method, use: handler)
    let text = path.description
    if !text.utf8.contains(where: { "{*:".utf8.contains($0) }) {
      table.fixed[Name(text), default: [:]][method] = Endpoint(handler: handler)
    }
  }

  private func surrounded(_ handler: @escaping Handler) -> Handler {
    var handler = handler
    for layer in layers.reversed() { handler = Self.surrounded(handler, by: layer) }
    return handler
  }

  private static func surrounded(_ next: @escaping Handler, by layer: any Layer) -> Handler {
    { request, context in try await layer.answer(request, context, next) }
  }

  /// To be called once, when all endpoints are there.
  package func buildResponder() -> RoutesResponder {
    table.router.add(middleware: Unmatched(handler: surrounded { _, _ in throw HTTPError(.notFound) }))
    return RoutesResponder(fixed: table.fixed, router: table.router.buildResponder())
  }

  /// Answers where the router finds nothing: what is added to it after all endpoints surrounds nothing else.
  private struct Unmatched: RouterMiddleware {
    let handler: Handler

    func handle(
      _ request: Request, context: WireContext,
      next: @concurrent (Request, WireContext) async throws -> Response
    ) async throws -> Response {
      try await handler(request, context)
    }
  }
}

/// What surrounds the handlers of endpoints. It sees each request before they do, and their answers. Unlike a middleware of
/// Hummingbird it runs where its caller does.
package protocol Layer: Sendable {
  func answer(_ request: Request, _ context: WireContext, _ next: Routes.Handler) async throws -> Response
}

/// Finds the handler of a request.
///
/// A path with bytes that are not printable ASCII (RFC 3986, 2) is refused, because the router compares paths by
/// characters. Unknown methods get one name, so that they get the error that lists the allowed methods. HEAD is answered as
/// GET, without the content (RFC 9110 9.3.2): a client takes whatever follows the head for the beginning of its next answer.
package struct RoutesResponder: HTTPResponder {
  package typealias Context = WireContext

  fileprivate let fixed: [Name: [HTTPRequest.Method: Routes.Endpoint]]
  fileprivate let router: RouterResponder<WireContext>

  package func respond(to request: Request, context: WireContext) async throws -> Response {
    guard request.method == .head else { return try await answer(request, context) }
    return try await answer(request.replacingMethod(by: .get), context).createHeadResponse()
  }

  private func answer(_ request: Request, _ context: WireContext) async throws -> Response {
    let path = request.uri.path
    guard let endpoint = fixed[Name(path)]?[request.method] else { return try await search(request, context) }
    context.coreContext.endpointPath.value = path
    do {
      return try await endpoint.handler(request, context)
    } catch let error as any HTTPResponseError {
      return try error.response(from: request, context: context)
    }
  }

  private func search(_ request: Request, _ context: WireContext) async throws -> Response {
    let path = (request.head.path ?? "").utf8.prefix { $0 != UInt8(ascii: "?") }
    guard path.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      return APIError("Malformed request").response
    }
    let isKnown = HTTPRequest.Method.known.contains(request.method)
    return try await router.respond(
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
