package import HTTP
internal import HTTPTypes
package import Hummingbird
internal import NIOCore

/// The operator's listener: is it alive, can it work, what has it done.
package struct OperatorRoutes: Sendable {
  private let readiness: Readiness
  private let metrics: PrometheusRegistry
  private let token: BearerToken?
  private let heldAddress: String?
  private let pages: AdminRoutes?

  /// - Parameters:
  ///   - token: where set, who wants more than to know whether the service is ready has to show it.
  ///   - heldAddress: where the public listener's socket listens if systemd holds it, as `127.0.0.1:8080`.
  ///   - dashboard: what the pages show; nil: there are none.
  package init(
    readiness: Readiness, metrics: PrometheusRegistry, token: String?, heldAddress: String? = nil,
    dashboard: Dashboard? = nil
  ) {
    self.readiness = readiness
    self.metrics = metrics
    self.heldAddress = heldAddress
    let bearer = token.map { BearerToken($0, name: "admin.token") }
    self.token = bearer
    pages = dashboard.map { AdminRoutes($0, token: token, bearer: bearer) }
  }

  /// Adds the routes.
  package func add(to router: Router<WireContext>) {
    router.endpoint("/healthz", .get) { _, _ in
      Self.json(.ok, ["status": "ok", "held": heldAddress.map(JSON.string) ?? .null])
    }
    router.endpoint("/readyz", .get) { request, context in
      // A balancer asks without a token. Which providers and push services there are is not for everybody.
      let isBrief = token != nil && request.headers[.authorization] == nil
      if !isBrief { try admit(request, context) }
      let health = await readiness.report()
      return Self.json(
        health.status == .unavailable ? .serviceUnavailable : .ok,
        isBrief ? ["status": .string("\(health.status)")] : health.json)
    }
    router.endpoint("/metrics", .get) { request, context in
      try admit(request, context)
      return Response(
        status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
        body: ResponseBody(byteBuffer: ByteBuffer(string: await metrics.text())))
    }
    pages?.add(to: router)
  }

  private func admit(_ request: Request, _ context: WireContext) throws {
    guard let token else { return try AdminAccess.admitLocal(request) }
    try token.check(request, from: context.clientAddress)
  }

  private static func json(_ status: HTTPResponse.Status, _ document: JSON) -> Response {
    Response(
      status: status, headers: [.contentType: "application/json", .cacheControl: "no-store"],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: document.bytes + [UInt8(ascii: "\n")])))
  }
}
