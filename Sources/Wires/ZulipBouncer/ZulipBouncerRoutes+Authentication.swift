import Basics
import Delivery
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Logging
import Registrations
import SQL

extension ZulipBouncerRoutes {
  typealias ServerHandler = @Sendable (RemoteServer, Request, WireContext) async throws -> Response

  /// Wraps a handler of calls without credentials, which are limited per address.
  func unauthenticated(_ handler: @escaping Routes.Handler) -> Routes.Handler {
    { request, context in
      try perAddress.check(context.clientAddress.source)
      return try await handler(request, context)
    }
  }

  /// Wraps a handler of calls by a registered server, which are limited per server.
  func authenticated(_ handler: @escaping ServerHandler) -> Routes.Handler {
    authenticated(limit: perServer, handler)
  }

  /// Wraps a handler of calls by a registered server.
  ///
  /// - Parameters:
  ///   - limit: the limit per server; nil for none.
  ///   - isChange: whether the call changes the server's registration, which a key in its grace may not.
  func authenticated(
    limit: Rate<Int64>?, isChange: Bool = false, _ handler: @escaping ServerHandler
  ) -> Routes.Handler {
    { request, context in
      let server = try await authenticate(request, from: context.clientAddress, isChange: isChange)
      context.notes.record(server: server.hostname)
      let limitHeaders = try limit?.check(server.id) ?? [:]
      bouncer.requestTimes.record(server: server.id)
      var response = try await handler(server, request, context)
      response.headers.append(contentsOf: limitHeaders)
      return response
    }
  }

  /// Counts refused registrations, for `push/status`. One whose realm is not known yet is asked to come again later.
  func countingRefusals(_ handler: @escaping ServerHandler) -> ServerHandler {
    { server, request, context in
      do {
        return try await handler(server, request, context)
      } catch let error as APIError {
        if error.status.kind == .clientError, error.status != .tooManyRequests {
          bouncer.deliverer.history?.refusedRegistration(of: server.id, RegistrationRefusal(code: error.code))
        }
        throw error.code == APIError.Code.missingRealm ? APIError.awaitedRealm : error
      }
    }
  }

  private func authenticate(
    _ request: Request, from address: ClientAddress, isChange: Bool
  ) async throws -> RemoteServer {
    let shown = RemoteServers.Credentials(request.headers.value(.authorization) ?? "", from: address.source)
    if let server = bouncer.servers.server(shown) { return server }
    let credentials = try BasicCredentials(zulip: request)
    let role = credentials.user
    guard !role.utf8.contains(UInt8(ascii: "@")) else {
      throw APIError("Must validate with valid Zulip server API key")
    }
    guard let uuid = UUID(pythonText: role) else { throw APIError.unknownServer(role) }
    let attempt = SignInGuard.Attempt(from: address, account: uuid.uuidString, secret: credentials.password)
    try signIns.admit(attempt)
    let refusal: APIError
    switch try await bouncer.servers.authenticate(uuid: uuid, key: credentials.password, as: shown) {
    case .inGrace where isChange:
      signIns.record(attempt, isRight: true)
      throw APIError.replacedKey
    case .inGrace(let server), .authenticated(let server):
      signIns.record(attempt, isRight: true)
      try await bouncer.keepKey(credentials.password, of: server)
      return server
    case .deactivated:
      signIns.record(attempt, isRight: true)
      throw APIError.deactivated
    case .unknown: refusal = .unknownServer(role)
    case .wrongKey: refusal = .wrongKey(role)
    }
    signIns.record(attempt, isRight: false)
    throw refusal
  }

  /// Waits if the database is unavailable. It is for calls that must not be refused, because what they carry would be lost.
  func waitingForDatabase(_ handler: @escaping Routes.Handler) -> Routes.Handler {
    { request, context in
      try await DatabaseWait.wait(upTo: Bouncer.databaseWait) {
        try await handler(request, context)
      }
    }
  }

  /// Turns server errors into 429: after a 5xx a chat server leaves the device pending forever, while after
  /// any 4xx the phone tries again.
  func neverServerError(_ handler: @escaping Routes.Handler) -> Routes.Handler {
    { request, context in
      do {
        return try await handler(request, context)
      } catch {
        let refusal = APIError(error, logger: context.logger)
        guard refusal.status.kind == .serverError else { throw refusal }
        throw APIError.rateLimited(retryAfter: refusal.headers[.retryAfter] ?? "5")
      }
    }
  }
}

extension UUID {
  /// Reads a UUID in every spelling that Python's `uuid.UUID` accepts: with a `urn:uuid:` prefix, in braces,
  /// with hyphens anywhere or nowhere, in either case.
  init?(pythonText text: String) {
    if let uuid = UUID(hyphenated: text) {
      // The usual spelling.
      self = uuid
      return
    }
    guard text.utf8.count <= 128 else { return nil }
    var rest = text.replacing("urn:", with: "").replacing("uuid:", with: "")[...]
    while let first = rest.first, "{}".contains(first) { rest.removeFirst() }
    while let last = rest.last, "{}".contains(last) { rest.removeLast() }
    self.init(digits: rest.utf8.filter { $0 != UInt8(ascii: "-") })
  }
}
