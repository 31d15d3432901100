package import HTTPTypes
package import Hummingbird

/// The endpoints of a listener.
///
/// A path without parameters is found in a dictionary. Hummingbird's router, which has all of them, compares a path part by part
/// with what there is: for a notification that took 4 % of its instructions.
package final class Routes: RouterMethods {
  package typealias Context = WireContext
  package typealias Handler = @Sendable (Request, WireContext) async throws -> Response

  private let router = Router(context: WireContext.self)
  private var fixed: [Name: [HTTPRequest.Method: any HTTPResponder<WireContext>]] = [:]

  package init() {}

  /// Each route's path and method.
  package var all: [(path: String, method: HTTPRequest.Method)] {
    router.routes.map { ("\($0.path)", $0.method) }
  }

  @discardableResult
  package func on<Responder: HTTPResponder>(
    _ path: RouterPath, method: HTTPRequest.Method, responder: Responder
  ) -> Self where Responder.Context == WireContext {
    router.on(path, method: method, responder: responder)
    let text = path.description
    if !text.utf8.contains(where: { "{*:".utf8.contains($0) }) {
      fixed[Name(text), default: [:]][method] = router.middlewares.constructResponder(
        finalResponder: responder)
    }
    return self
  }

  @discardableResult
  package func add(middleware: any MiddlewareProtocol<Request, Response, WireContext>) -> Self {
    router.add(middleware: middleware)
    return self
  }

  package func buildResponder() -> RoutesResponder {
    RoutesResponder(fixed: fixed, others: PlainPaths(router.buildResponder()))
  }
}

/// What is in the dictionary is plain (``PlainPaths``).
package struct RoutesResponder: HTTPResponder {
  package typealias Context = WireContext

  fileprivate let fixed: [Name: [HTTPRequest.Method: any HTTPResponder<WireContext>]]
  fileprivate let others: PlainPaths<RouterResponder<WireContext>>

  @concurrent package func respond(to request: Request, context: WireContext) async throws -> Response {
    let path = request.uri.path
    guard let responder = fixed[Name(path)]?[request.method] else {
      return try await others.respond(to: request, context: context)
    }
    context.coreContext.endpointPath.value = path
    do {
      return try await responder.respond(to: request, context: context)
    } catch let error as any HTTPResponseError {
      return try error.response(from: request, context: context)
    }
  }
}
