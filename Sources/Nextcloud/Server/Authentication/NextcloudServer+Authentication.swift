internal import HTTPTypes
internal import Hummingbird
internal import Registrations
internal import Wire

extension NextcloudServer {
  typealias UserHandler = @Sendable (NextcloudLogin, OCSRequest) async throws -> OCSAnswer
  typealias OpenHandler = @Sendable (NextcloudLogin?, OCSRequest) async throws -> OCSAnswer

  /// For calls of a signed-in user: so many per user. Who is not signed in is told so before anything else.
  func authenticated(_ handler: @escaping UserHandler) -> Router<WireContext>.Handler {
    answering { request, call in
      guard let login = try await login(request) else {
        try count(call.context.clientAddress.source, by: perAddress)
        throw OCSAnswer.notLoggedIn
      }
      try Self.checkForgery(request)
      let standing = try count(login.user.id, by: perUser)
      var answer = try await handler(login, call)
      answer.headers.append(contentsOf: standing)
      return answer
    }
  }

  /// For calls of anybody: those of who is not signed in so many per address. Credentials that are wrong, or
  /// not valid any more, are never taken for none: an app has to hear that it was signed out.
  func open(_ handler: @escaping OpenHandler) -> Router<WireContext>.Handler {
    answering { request, call in
      try Self.checkForgery(request)
      let login = try await login(request)
      if let login {
        try count(login.user.id, by: perUser)
      } else {
        try count(call.context.clientAddress.source, by: perAddress)
      }
      guard login != nil || request.headers[.authorization] == nil else { throw OCSAnswer.notLoggedIn }
      return try await handler(login, call)
    }
  }

  private func answering(
    _ body: @escaping @Sendable (Request, OCSRequest) async throws -> OCSAnswer
  ) -> Router<WireContext>.Handler {
    { request, context in
      let call = try await OCSRequest(request, context, limit: configuration.maximumBodyBytes)
      do {
        return try await body(request, call).response(call.format, call.version)
      } catch let answer as OCSAnswer {
        return answer.response(call.format, call.version)
      } catch let error as APIError where error.status != .serviceUnavailable {
        return OCSAnswer(error.status, data: ["message": .string(error.message)], message: error.message)
          .response(call.format, call.version)
      } catch is ForgedRequest {
        return ForgedRequest.response
      }
    }
  }

  /// Who has signed in: with `username:app-password` (or an email, or an API key) as Basic credentials, or
  /// with an app password as a bearer token, as Nextcloud has it.
  private func login(_ request: Request) async throws -> NextcloudLogin? {
    let accounts = dependencies.accounts
    if let token = Self.bearer(request) {
      return try await accounts.login(appPassword: token).map(NextcloudLogin.init)
    }
    guard let credentials = try? BasicCredentials(of: request) else { return nil }
    if Accounts.isAPIKey(credentials.password) {
      return try await accounts.authenticate(login: credentials.user, apiKey: credentials.password).map {
        NextcloudLogin(user: $0, appPassword: nil)
      }
    }
    guard let found = try await accounts.login(appPassword: credentials.password),
      found.user.answers(to: credentials.user)
    else { return nil }
    return NextcloudLogin(found)
  }

  private static func bearer(_ request: Request) -> String? {
    request.headers[.authorization]?.dropping(prefix: "bearer ").map { String($0).strippingWhitespace() }
  }

  /// A browser that was lured here would not send the header; nor would it have a bearer token.
  private static func checkForgery(_ request: Request) throws {
    guard request.headers[.ocsAPIRequest]?.isEmpty == false || bearer(request) != nil else {
      throw ForgedRequest()
    }
  }

  @discardableResult
  private func count<Key>(_ key: Key, by limiter: RateLimiter<Key>) throws(OCSAnswer) -> HTTPFields {
    do {
      return try limiter.check(key)
    } catch {
      var answer = OCSAnswer(error.status, message: error.message)
      answer.headers = error.headers
      throw answer
    }
  }
}

extension NextcloudLogin {
  fileprivate init(_ login: Accounts.AppPasswordLogin) {
    self.init(user: login.user, appPassword: login.appPassword)
  }
}

/// A call that another site may have made a browser send. Its answer has no envelope.
private struct ForgedRequest: Error {
  static var response: Response {
    Response(
      status: .preconditionFailed, headers: [.contentType: "application/json; charset=utf-8"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: #"{"message":"CSRF check failed"}"#)))
  }
}

extension HTTPField.Name {
  /// `OCS-APIRequest`
  static let ocsAPIRequest = HTTPField.Name("OCS-APIRequest")!  // a valid token
}
