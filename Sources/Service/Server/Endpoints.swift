package import Basics
package import HTTP
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Operator
import SQL

/// The routes of a listener and their handler.
package struct Endpoints: Sendable {
  package let responder: RoutesResponder
  /// Each route's path and method.
  let routes: [(path: String, method: HTTPRequest.Method)]

  private init(_ router: Routes) {
    responder = router.buildResponder()
    routes = router.all
  }

  package static func forPublic(
    trustedProxies: [ClientAddress.Network], forwarding: ForwardingFaults, bodies: BodyBudget,
    addRoutes: (Routes) -> Void
  ) -> Endpoints {
    let router = Routes()
    router.add(RequestObserver())
    router.add(
      EnvelopeLayer(
        trustedProxies: trustedProxies, forwarding: forwarding, bodies: bodies))
    router.add(DatabaseLimit())
    // Nextcloud administrators check for this text to see whether the proxy works.
    router.endpoint("/", .get) { _, _ in
      Response(
        status: .notFound, headers: [.contentType: "text/plain; charset=utf-8"],
        body: ResponseBody(byteBuffer: ByteBuffer(string: "404 page not found")))
    }
    addRoutes(router)
    return Endpoints(router)
  }

  static func forOperator(_ operatorRoutes: OperatorRoutes) -> Endpoints {
    let router = Routes()
    // Monitoring calls these routes constantly, so requests are logged at debug level only.
    router.add(RequestObserver(level: .debug))
    router.add(EnvelopeLayer())
    operatorRoutes.add(to: router)
    return Endpoints(router)
  }
}

/// Limits how long a request waits for the database, so that a hanging database does not block callers.
private struct DatabaseLimit: Layer {
  func answer(
    _ request: Request, _ context: WireContext, _ next: Routes.Handler
  ) async throws -> Response {
    try await DatabaseWait.limit(eachCallTo: .seconds(12)) { try await next(request, context) }
  }
}
