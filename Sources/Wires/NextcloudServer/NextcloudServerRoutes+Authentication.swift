import Basics
import HTTP
import HTTPTypes
import Hummingbird
import Registrations

extension NextcloudServerRoutes {
  typealias UserHandler = @Sendable (NextcloudLogin, OCSRequest) async throws -> OCSAnswer
  /// A handler that also accepts calls without a login, which is then nil.
  typealias AnonymousHandler = @Sendable (NextcloudLogin?, OCSRequest) async throws -> OCSAnswer

  /// Wraps a handler of calls by a signed-in user, which are limited per user. Whether the caller is signed in is checked
  /// before anything else.
  func authenticated(_ handler: @escaping UserHandler) -> Routes.Handler {
    answering(allowsAnonymous: false) { login, call in
      guard let login else { throw OCSAnswer.notLoggedIn }
      return try await handler(login, call)
    }
  }

  /// Wraps a handler of calls that need no login. Wrong or expired credentials are refused and not ignored, so that an app
  /// learns that it was signed out.
  func unauthenticated(_ handler: @escaping AnonymousHandler) -> Routes.Handler {
    answering(allowsAnonymous: true, handler)
  }

  /// Authenticates and rate-limits a request before its body is read.
  private func answering(
    allowsAnonymous: Bool, _ handler: @escaping AnonymousHandler
  ) -> Routes.Handler {
    { request, context in
      var call: OCSRequest?
      do {
        let login = try await signIn(request, from: context.clientAddress)
        guard login != nil || allowsAnonymous && request.headers[.authorization] == nil else {
          throw OCSAnswer.notLoggedIn
        }
        try Self.checkForgery(request)
        let limitHeaders = try login.map { try perUser.check($0.user.id) } ?? [:]
        let admitted = try await OCSRequest(request, context, limit: maxBodyBytes)
        call = admitted
        var answer = try await handler(login, admitted)
        if !allowsAnonymous { answer.headers.append(contentsOf: limitHeaders) }
        return answer.response(admitted.format, admitted.version)
      } catch is ForgedRequest {
        return ForgedRequest.response
      } catch {
        return (error as? OCSAnswer ?? OCSAnswer(APIError(error, logger: context.logger))).response(
          call?.format ?? OCSFormat(ofRefused: request),
          call?.version ?? OCSVersion(path: request.uri.path) ?? .v2)
      }
    }
  }

  /// Authenticates a request: `username:app-password` (or an email, or an API key) as Basic credentials, or
  /// an app password as a bearer token, as in Nextcloud. Calls without credentials are limited per address.
  private func signIn(_ request: Request, from address: ClientAddress) async throws -> NextcloudLogin? {
    let (account, secret): (String?, String)
    if let token = Self.bearer(request) {
      account = nil
      secret = token
    } else if let credentials = try? BasicCredentials(of: request) {
      account = credentials.user
      secret = credentials.password
    } else {
      try perAddress.check(address.source)
      return nil
    }
    let attempt = SignInGuard.Attempt(from: address, account: account, secret: secret)
    try signIns.admit(attempt)
    let login = try await accounts.login(account, secret: secret)
    signIns.record(attempt, isRight: login != nil)
    return login
  }

  private static func bearer(_ request: Request) -> String? {
    request.headers[.authorization]?.dropping(prefix: "bearer ").map { String($0).strippingWhitespace() }
  }

  /// CSRF protection: a browser lured here would send neither the header nor a bearer token.
  private static func checkForgery(_ request: Request) throws {
    guard request.headers[.ocsAPIRequest]?.isEmpty == false || bearer(request) != nil else {
      throw ForgedRequest()
    }
  }
}

/// Thrown for a call that another site may have made a browser send. The answer has no envelope.
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
