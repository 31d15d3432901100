import HTTPTypes
import Hummingbird
import NIOCore
import Operations
import SQL
import Wire

/// What strangers may call.
struct Endpoints: Sendable {
  let responder: PlainPaths<RouterResponder<WireContext>>
  /// Each path with its methods.
  let routes: [(path: String, method: HTTPRequest.Method)]

  init(trustedProxies: [ClientAddress.Network], bodies: BodyBudget, addRoutes: (Router<WireContext>) -> Void)
  {
    let router = Router(context: WireContext.self)
    router.add(middleware: RequestObserver())
    router.add(middleware: EnvelopeMiddleware(trustedProxies: trustedProxies, bodies: bodies))
    router.add(middleware: DatabaseLimit())
    // What the admins of Nextcloud look for to see that the proxy is there.
    router.get("/") { _, _ in
      Response(
        status: .notFound, headers: [.contentType: "text/plain; charset=utf-8"],
        body: ResponseBody(byteBuffer: ByteBuffer(string: "404 page not found")))
    }
    addRoutes(router)
    responder = PlainPaths(router.buildResponder())
    routes = router.routes.map { ("\($0.path)", $0.method) }
  }
}

/// A database that hangs must not hold those who call.
private struct DatabaseLimit: RouterMiddleware {
  func handle(
    _ request: Request, context: WireContext, next: (Request, WireContext) async throws -> Response
  ) async throws -> Response {
    try await DatabasePatience.limit(eachCallTo: .seconds(12)) { try await next(request, context) }
  }
}
