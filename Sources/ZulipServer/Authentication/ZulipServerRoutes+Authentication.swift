internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Registrations

extension ZulipServerRoutes {
  typealias UserHandler = @Sendable (User, Request, WireContext) async throws -> Response

  /// For calls of a signed-in user: so many per user (`Documentation/Protocols/Zulip.md` 10.1 and 2.7).
  func authenticated(_ handler: @escaping UserHandler) -> Router<WireContext>.Handler {
    { request, context in
      let user = try await authenticate(request, from: context.clientAddress)
      let standing = try perUser.check(user.id)
      var response = try await handler(user, request, context)
      response.headers.append(contentsOf: standing)
      return response
    }
  }

  private func authenticate(_ request: Request, from address: ClientAddress) async throws -> User {
    guard request.headers[.authorization] != nil else {
      throw APIError.notSignedIn
    }
    let credentials = try BasicCredentials(of: request)
    let key = credentials.password.strippingWhitespace()
    guard AccountStore.isAPIKey(key) else { throw APIError.malformedAPIKey }
    let email = credentials.user.strippingWhitespace()
    let attempt = SignInGuard.Attempt(from: address, account: email, secret: key)
    try signIns.admit(attempt)
    switch try await dependencies.accounts.authenticate(email: email, apiKey: key) {
    case .authenticated(let user):
      signIns.note(attempt, isRight: true)
      return user
    case .invalid:
      signIns.note(attempt, isRight: false)
      throw APIError.invalidAPIKey
    }
  }
}
