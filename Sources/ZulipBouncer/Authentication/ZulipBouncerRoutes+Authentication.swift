package import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Logging
package import Registrations
internal import SQL

extension ZulipBouncerRoutes {
  typealias ServerHandler = @Sendable (RemoteServer, Request, WireContext) async throws -> Response

  /// For calls without credentials: so many per address.
  func unauthenticated(_ handler: @escaping Router<WireContext>.Handler) -> Router<WireContext>.Handler {
    { request, context in
      try perAddress.check(context.clientAddress.source)
      return try await handler(request, context)
    }
  }

  /// For calls of a registered server: so many per server.
  func authenticated(_ handler: @escaping ServerHandler) -> Router<WireContext>.Handler {
    authenticated(limit: perServer, handler)
  }

  /// For calls of a registered server, limited per server by `limit`, or not.
  func authenticated(
    limit: RateLimiter<Int64>?, _ handler: @escaping ServerHandler
  ) -> Router<WireContext>.Handler {
    { request, context in
      let server = try await authenticate(request, from: context.clientAddress)
      context.notes.note(server: server.hostname)
      let standing = try limit?.check(server.id) ?? [:]
      dependencies.requestTimes.note(server: server.id)
      var response = try await handler(server, request, context)
      response.headers.append(contentsOf: standing)
      return response
    }
  }

  private func authenticate(_ request: Request, from address: ClientAddress) async throws -> RemoteServer {
    let shown = RemoteServers.Credentials(request.headers.value(.authorization) ?? "", from: address.source)
    if let server = dependencies.servers.server(shown) { return server }
    let credentials = try BasicCredentials(of: request)
    let role = credentials.user
    guard !role.utf8.contains(UInt8(ascii: "@")) else { throw APIError.wrongKindOfKey }
    guard let uuid = UUID(pythonText: role) else { throw APIError.unknownServer(role) }
    let attempt = SignInGuard.Attempt(from: address, account: uuid.uuidString, secret: credentials.password)
    try signIns.admit(attempt)
    let result = try await dependencies.servers.authenticate(
      uuid: uuid, key: credentials.password, as: shown)
    signIns.note(attempt, isRight: result.isRight)
    switch result {
    case .authenticated(let server): return server
    case .unknown: throw APIError.unknownServer(role)
    case .wrongKey: throw APIError.wrongKey(role)
    case .deactivated: throw APIError.deactivated
    }
  }

  /// A call by a chat server that is part of this program: it needs no key, and waits for the database.
  package func call<Result>(
    as server: UUID, _ body: (RemoteServer) async throws -> Result
  ) async throws -> Result {
    try await DatabaseWait.wait(upTo: configuration.databaseWait) {
      guard let server = try await dependencies.servers.find(uuid: server) else {
        throw APIError.unknownServer(server.canonical)
      }
      guard !server.isDeactivated else { throw APIError.deactivated }
      dependencies.requestTimes.note(server: server.id)
      return try await body(server)
    }
  }

  /// For calls that are lost for good once they have been refused: a database that is away is waited for.
  func patient(_ handler: @escaping Router<WireContext>.Handler) -> Router<WireContext>.Handler {
    { request, context in
      try await DatabaseWait.wait(upTo: configuration.databaseWait) { try await handler(request, context) }
    }
  }

  /// Where a chat server that gets a 5xx leaves the device pending for ever, while after any 4xx the phone
  /// comes again: whatever may pass by itself is 429.
  func neverServerError(_ handler: @escaping Router<WireContext>.Handler) -> Router<WireContext>.Handler {
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

extension RemoteServers.Authentication {
  fileprivate var isRight: Bool {
    switch self {
    case .authenticated, .deactivated: true
    case .unknown, .wrongKey: false
    }
  }
}

extension ZulipBouncerRoutes {
  /// The realm that a server calls for, its call noted.
  func caller(_ uuid: UUID, of server: RemoteServer) async throws -> RemoteRealm {
    let realm = try await realm(uuid, of: server)
    dependencies.requestTimes.note(realm: realm.id)
    return realm
  }

  /// The realm of a server with this UUID.
  func realm(_ uuid: UUID, of server: RemoteServer) async throws -> RemoteRealm {
    switch try await dependencies.realms.find(uuid: uuid, server: server.id) {
    case .owned(let realm): return realm
    case .unknown: throw APIError.missingRealm
    case .anothersRealm: throw APIError.anothersRealm(uuid)
    }
  }
}

extension UUID {
  /// The realm that a server names.
  init(realm text: String) throws(APIError) {
    guard let uuid = UUID(pythonText: text) else { throw .missingRealm }
    self = uuid
  }
}

extension UUID {
  /// Reads a UUID in every spelling that Python's `uuid.UUID` takes: `urn:uuid:` in front, braces
  /// around, hyphens anywhere or nowhere, either case.
  init?(pythonText text: String) {
    if let uuid = UUID(hyphenated: text) {
      // As nearly everybody spells it.
      self = uuid
      return
    }
    guard text.utf8.count <= 128 else { return nil }
    var digits = text.replacing("urn:", with: "").replacing("uuid:", with: "")[...]
    while let first = digits.first, "{}".contains(first) { digits.removeFirst() }
    while let last = digits.last, "{}".contains(last) { digits.removeLast() }
    self.init(digits: digits.utf8.filter { $0 != UInt8(ascii: "-") })
  }

  /// Whether the text is a UUID of version 4 as its canonical text: lower case, hyphens in place.
  static func isCanonicalVersion4(_ text: String) -> Bool {
    guard let uuid = UUID(uuidString: text), uuid.canonical == text else { return false }
    return uuid.isVersion4
  }
}
