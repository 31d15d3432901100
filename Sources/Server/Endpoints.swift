package import HTTP
import HTTPTypes
package import Hummingbird
import Logging
import NIOCore
import Operations
import SQL

/// What may be called at a listener.
package struct Endpoints: Sendable {
  package let responder: PlainPaths<RouterResponder<WireContext>>
  /// Each path with its methods.
  let routes: [(path: String, method: HTTPRequest.Method)]

  private init(_ router: Router<WireContext>) {
    responder = PlainPaths(router.buildResponder())
    routes = router.routes.map { ("\($0.path)", $0.method) }
  }

  package static func forStrangers(
    trustedProxies: [ClientAddress.Network], bodies: BodyBudget, addRoutes: (Router<WireContext>) -> Void
  ) -> Endpoints {
    let router = Router(context: WireContext.self)
    router.add(middleware: RequestObserver())
    router.add(
      middleware: EnvelopeMiddleware(
        trustedProxies: trustedProxies, unnamedProxies: UnnamedProxies(), bodies: bodies))
    router.add(middleware: DatabaseLimit())
    // Nextcloud's administrators test for this text to see that the proxy is there.
    router.endpoint("/", .get) { _, _ in
      Response(
        status: .notFound, headers: [.contentType: "text/plain; charset=utf-8"],
        body: ResponseBody(byteBuffer: ByteBuffer(string: "404 page not found")))
    }
    addRoutes(router)
    return Endpoints(router)
  }

  static func forOperator(_ operatorRoutes: OperatorRoutes) -> Endpoints {
    let router = Router(context: WireContext.self)
    // Monitoring asks all the time, which is not worth a line in the log each.
    router.add(middleware: RequestObserver(level: .debug))
    router.add(middleware: EnvelopeMiddleware())
    operatorRoutes.add(to: router)
    return Endpoints(router)
  }
}

/// A database that hangs must not hold up callers.
private struct DatabaseLimit: RouterMiddleware {
  func handle(
    _ request: Request, context: WireContext, next: (Request, WireContext) async throws -> Response
  ) async throws -> Response {
    try await DatabaseWait.limit(eachCallTo: .seconds(12)) { try await next(request, context) }
  }
}
