internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import Registrations
internal import SQL
internal import Wire

extension ZulipBouncer {
  typealias ServerHandler = @Sendable (RemoteServer, Request, WireContext) async throws -> Response

  /// For calls without credentials: so many per address.
  func open(_ handler: @escaping Router<WireContext>.Handler) -> Router<WireContext>.Handler {
    { request, context in
      try perAddress.check(context.clientAddress)
      return try await handler(request, context)
    }
  }

  /// For calls of a registered server: so many per server (`spec/zulip.md` A.5, A.7).
  func authenticated(_ handler: @escaping ServerHandler) -> Router<WireContext>.Handler {
    { request, context in
      let server = try await authenticate(request)
      let standing = try perServer.check(server.uuid.uuidString)
      dependencies.requestTimes.note(server: server.id)
      var response = try await handler(server, request, context)
      response.headers.append(contentsOf: standing)
      return response
    }
  }

  private func authenticate(_ request: Request) async throws -> RemoteServer {
    let credentials = try BasicCredentials(of: request)
    let role = credentials.user
    guard !role.contains("@") else { throw APIError("Must validate with valid Zulip server API key") }
    guard let uuid = UUID(pythonText: role) else { throw APIError.unknownServer(role) }
    switch try await dependencies.servers.authenticate(uuid: uuid, key: credentials.password) {
    case .authenticated(let server): return server
    case .unknown: throw APIError.unknownServer(role)
    case .wrongKey: throw APIError.unauthorized(APIError.wrongKeyText(role))
    case .deactivated: throw APIError.unauthorized(APIError.deactivatedText)
    }
  }

  /// Where any 4xx ends a registration for good on the chat server's side (`spec/zulip.md` 0.6),
  /// whatever may pass by itself is 503 (`spec/decisions.md` 3).
  func neverFinalByAccident(_ handler: @escaping Router<WireContext>.Handler) -> Router<WireContext>.Handler {
    { request, context in
      do {
        return try await handler(request, context)
      } catch let error as APIError where error.status == .tooManyRequests {
        let seconds = error.headers[.retryAfter].flatMap(Double.init) ?? 1
        throw APIError.unavailable(error.message, retryAfter: max(1, Int(seconds.rounded(.up))))
      } catch let error as DatabaseError {
        context.logger.error(
          "database failed", metadata: ["code": "\(error.code)", "reason": "\(error.message)"])
        throw APIError.tryAgainLater
      }
    }
  }
}

extension APIError {
  static let deactivatedText =
    "The mobile push notification service registration for your server has been deactivated"

  static func wrongKeyText(_ role: String) -> String {
    "Zulip server auth failure: key does not match role \(role)"
  }

  static func unknownServer(_ role: String) -> APIError {
    .unauthorized(
      "Zulip server auth failure: \(role) is not registered -- did you run `manage.py register_server`?")
  }
}
