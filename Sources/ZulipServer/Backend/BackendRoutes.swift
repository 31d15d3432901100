package import Foundation
package import HTTP
internal import HTTPTypes
package import Hummingbird
package import Registrations

/// What the host application calls: its realms and users, and notifications to them.
///
/// Answers are bare JSON objects, errors are in Zulip's envelope.
package struct BackendRoutes: Sendable {
  /// Bytes in a body.
  static let maximumBodyBytes = 1 << 20

  let accounts: AccountStore
  let devices: Devices
  let loginFlows: NextcloudLoginFlows
  let notify: @Sendable (User, Message) async throws -> [PartResult]
  let realmsChanged: @Sendable () -> Void
  private let token: BearerToken?

  /// - Parameters:
  ///   - token: what the host application shows; without one there are no such paths.
  ///   - notify: sends the parts of a notification to all devices of a user, and tells what became of each;
  ///     it may refuse all of it with an ``Wire/APIError``, before anything is sent.
  ///   - realmsChanged: called after a realm was added or is not as it was.
  package init(
    accounts: AccountStore, devices: Devices, loginFlows: NextcloudLoginFlows, token: String?,
    notify: @escaping @Sendable (User, Message) async throws -> [PartResult],
    realmsChanged: @escaping @Sendable () -> Void, now: @escaping @Sendable () -> Date
  ) {
    self.accounts = accounts
    self.devices = devices
    self.loginFlows = loginFlows
    self.token = token.map { BearerToken($0, name: "backend.token", now: now) }
    self.notify = notify
    self.realmsChanged = realmsChanged
  }

  /// Adds the routes.
  package func addRoutes(to router: Router<WireContext>) {
    guard let token else { return }
    let routes = router.group("/backend/v1/realms/{realm_uuid}").add(middleware: Guarded(token: token))
    routes.endpoint("", .put, use: putRealm)
    routes.endpoint("users/{user_id}", [.put: putUser, .delete: removeUser])
    routes.endpoint("users/{user_id}/app-passwords", .post, use: addAppPassword)
    routes.endpoint("users/{user_id}/app-passwords/{app_password_id}", .delete, use: removeAppPassword)
    routes.endpoint("users/{user_id}/login-flows", .post, use: grantLoginFlow)
    routes.endpoint("users/{user_id}/notifications", .post, use: sendNotification)
  }

  /// Looks at the token before anything else, the method too.
  private struct Guarded: RouterMiddleware {
    let token: BearerToken

    func handle(
      _ request: Request, context: WireContext, next: (Request, WireContext) async throws -> Response
    ) async throws -> Response {
      try token.check(request, from: context.clientAddress)
      return try await next(request, context)
    }
  }
}

extension BackendRoutes {
  /// The body of a request, which has no members but these.
  static func body(of request: Request, members: Set<Name>) async throws -> Field {
    let body = try await Field.body(of: request, limit: maximumBodyBytes)
    try body.forbidMembers(except: members)
    return body
  }

  /// The answer that there is nothing more to say.
  static var done: Response { Envelope.response(.ok, []) }
}
