internal import Crypto
internal import Foundation
internal import HTTPTypes
public import Hummingbird
internal import NIOCore
public import Wire

/// The operator's listener: is it alive, can it work, what has it done (`spec/interface.md` 5).
public struct OperatorRoutes: Sendable {
  private let readiness: Readiness
  private let metrics: PrometheusRegistry
  private let token: String?

  /// - Parameter token: where set, who wants the metrics has to show it.
  public init(readiness: Readiness, metrics: PrometheusRegistry, token: String?) {
    self.readiness = readiness
    self.metrics = metrics
    self.token = token
  }

  /// Adds the routes.
  public func add(to router: Router<WireContext>) {
    router.endpoint("/healthz", .get) { _, _ in Self.json(.ok, ["status": "ok"]) }
    router.endpoint("/readyz", .get) { _, _ in
      let (status, document) = await readiness.report()
      return Self.json(status == .unavailable ? .serviceUnavailable : .ok, document)
    }
    router.endpoint("/metrics", .get) { request, _ in
      try authorize(request)
      return Response(
        status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
        body: ResponseBody(byteBuffer: ByteBuffer(string: await metrics.text())))
    }
  }

  private func authorize(_ request: Request) throws(APIError) {
    guard let token else { return }
    let shown = request.headers[.authorization].flatMap {
      $0.lowercased().hasPrefix("bearer ") ? $0.dropFirst(7) : nil
    }
    // Hashes are of one length, and comparing them takes the same time wherever they differ.
    guard let shown, SHA256.hash(data: Data(shown.utf8)) == SHA256.hash(data: Data(token.utf8)) else {
      throw APIError(
        .unauthorized, code: "UNAUTHORIZED", "Not logged in: admin.token wanted as a bearer token",
        headers: [.wwwAuthenticate: "Bearer"])
    }
  }

  private static func json(_ status: HTTPResponse.Status, _ document: JSON) -> Response {
    Response(
      status: status, headers: [.contentType: "application/json", .cacheControl: "no-store"],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: document.bytes + [UInt8(ascii: "\n")])))
  }
}
