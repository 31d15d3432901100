import Basics
package import HTTP
import HTTPTypes
import Hummingbird
import NIOCore
package import Sealing

/// The operator's listener: health, readiness, metrics and pages.
package struct OperatorRoutes: Sendable {
  private let readiness: Readiness
  private let metrics: PrometheusRegistry
  private let token: BearerToken?
  private let heldAddress: String?
  private let pages: AdminRoutes?
  private let deliveries: DeliveryReport?
  private let storageKey: StorageKey?
  private let settings: [(key: String, value: String)]

  /// - Parameters:
  ///   - token: the bearer token for everything except `/healthz` and a brief `/readyz`; nil: none is needed.
  ///   - heldAddress: the address of the public listener's socket if systemd holds it, such as
  ///     `127.0.0.1:8080`.
  ///   - dashboard: the data of the pages; nil: there are no pages.
  ///   - deliveries: what `/deliveries` tells; nil: there is no such path.
  ///   - storageKey: the key that this program's own commands ask with; nil: they cannot ask.
  ///   - settings: what they are told that the service serves with, without secrets.
  package init(
    readiness: Readiness, metrics: PrometheusRegistry, token: String?, heldAddress: String? = nil,
    dashboard: Dashboard? = nil, deliveries: DeliveryReport? = nil, storageKey: StorageKey? = nil,
    settings: [(key: String, value: String)] = []
  ) {
    self.readiness = readiness
    self.metrics = metrics
    self.heldAddress = heldAddress
    self.deliveries = deliveries
    self.storageKey = storageKey
    self.settings = settings
    let bearer = token.map { BearerToken($0, name: "admin.token") }
    self.token = bearer
    pages = dashboard.map { AdminRoutes($0, token: token, bearer: bearer) }
  }

  package func add(to router: Routes) {
    router.endpoint("/healthz", .get) { _, _ in
      Self.json(.ok, ["status": "ok", "held_address": .optional(heldAddress)])
    }
    router.endpoint("/readyz", .get) { request, context in
      // Load balancers call `/readyz` without a token. They get no details, since the names of providers and
      // push services are not public.
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
    if let deliveries {
      router.endpoint("/deliveries", .get) { request, context in
        try admit(request, context)
        return Self.json(.ok, try await deliveries.json(request.uri.queryParameters.get("q") ?? ""))
      }
    }
    if let storageKey {
      router.endpoint("\(SealedCall.path)", .post) { request, _ in
        let body = try await request.wholeBody(upTo: SealedCall.maximumBytes)
        guard let call = SealedCall(received: Array(body.readableBytesView), storageKey) else {
          throw APIError(.forbidden, "This is for push-bouncer's own commands")
        }
        let sealed = call.seal(try await answer(to: call.question))
        return Response(
          status: .ok, headers: [.contentType: "application/octet-stream", .cacheControl: "no-store"],
          body: ResponseBody(byteBuffer: ByteBuffer(bytes: sealed)))
      }
    }
    pages?.add(to: router)
  }

  private func answer(to question: SealedCall.Question) async throws -> JSON {
    switch question {
    case .state:
      ReportedState.json(await readiness.report(), heldAddress: heldAddress, settings: settings)
    case .deliveries(let text): try await deliveries?.json(text) ?? .null
    }
  }

  private func admit(_ request: Request, _ context: WireContext) throws {
    guard let token else { return try AdminAccess.admitLocal(request) }
    try token.check(request, from: context.clientAddress)
  }

  private static func json(_ status: HTTPResponse.Status, _ document: JSON) -> Response {
    Response(
      status: status, headers: [.contentType: "application/json", .cacheControl: "no-store"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: document.text.escaped() + "\n")))
  }
}
