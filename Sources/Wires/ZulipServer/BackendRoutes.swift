import Foundation
package import HTTP
import HTTPTypes
import Hummingbird
package import Registrations
import SQL

/// The API for the host application: its realms and users, and notifications to them.
///
/// Answers are bare JSON objects; errors are in Zulip's envelope.
package struct BackendRoutes: Sendable {
  /// Largest body, in bytes.
  static let maximumBodyBytes = 1 << 20

  let accounts: AccountStore
  let devices: Devices
  let loginFlows: NextcloudLoginFlows
  let notify: @Sendable (User, Message) async throws -> [PartResult]
  let realmsChanged: @Sendable () -> Void
  private let token: BearerToken?

  /// - Parameters:
  ///   - token: the host application's bearer token; without one there are no such endpoints.
  ///   - notify: sends the parts of a notification to all devices of a user and returns the result of each;
  ///     it may refuse all of it with an `APIError` before anything is sent.
  ///   - realmsChanged: called after a realm was created or changed.
  package init(
    accounts: AccountStore, devices: Devices, token: String?,
    notify: @escaping @Sendable (User, Message) async throws -> [PartResult],
    realmsChanged: @escaping @Sendable () -> Void
  ) {
    self.accounts = accounts
    self.devices = devices
    loginFlows = NextcloudLoginFlows(accounts: accounts)
    self.token = token.map { BearerToken($0, name: "backend.token", now: devices.now) }
    self.notify = notify
    self.realmsChanged = realmsChanged
  }

  package func addRoutes(to router: Routes) {
    guard let token else { return }
    let routes = router.group("/backend/v1/realms/{realm_uuid}", Guarded(token: token))
    routes.endpoint("", .put, use: putRealm)
    routes.endpoint("users/{user_id}", [.put: putUser, .delete: removeUser])
    routes.endpoint("users/{user_id}/app-passwords", .post, use: addAppPassword)
    routes.endpoint("users/{user_id}/app-passwords/{app_password_id}", .delete, use: removeAppPassword)
    routes.endpoint("users/{user_id}/login-flows", .post, use: grantLoginFlow)
    routes.endpoint("users/{user_id}/notifications", .post, use: sendNotification)
  }

  /// Checks the token before anything else, even before the method.
  private struct Guarded: Layer {
    let token: BearerToken

    func answer(
      _ request: Request, _ context: WireContext, _ next: Routes.Handler
    ) async throws -> Response {
      try token.check(request, from: context.clientAddress)
      return try await next(request, context)
    }
  }

  /// The body of a request; members other than these are refused.
  static func body(of request: Request, members: Set<Name>) async throws -> Field {
    let body = try await Field.body(of: request, limit: maximumBodyBytes, isExplaining: true)
    try body.forbidMembers(except: members)
    return body
  }

  /// The answer of a success without content.
  static var done: Response { Envelope.response(.ok, []) }

  /// Creates a realm, or updates an existing one.
  func putRealm(_ request: Request, _ context: WireContext) async throws -> Response {
    let uuid = try context.realmUUID()
    let body = try await Self.body(of: request, members: ["name", "url", "require_e2ee_push_notifications"])
    let (realm, before) = try await accounts.put(
      realm: uuid, name: try body["name"].name(), url: try body["url"].url(),
      requiresE2EE: try body["require_e2ee_push_notifications"].present?.bool())
    if realm != before { realmsChanged() }
    return Envelope.response(before == nil ? .created : .ok, realm.members)
  }
}

extension ChatRealm {
  fileprivate var members: [JSON.Object.Member] {
    [
      .init("realm_uuid", .string(uuid.canonical)), .init("name", .string(name)), .init("url", .string(url)),
      .init("require_e2ee_push_notifications", .bool(requiresE2EE)),
    ]
  }
}

extension BackendRoutes {
  /// The parts of a notification: for Zulip's apps with end-to-end encryption, for old apps, and for
  /// Nextcloud's apps.
  package struct Message: Sendable {
    package var zulip: Field?
    package var legacy: Field?
    package var nextcloud: Field?
  }

  /// Result of a part, by its name in the body, or the error.
  package typealias PartResult = (name: String, result: Result<JSON, any Error>)

  /// Sends a notification to all devices of a user, with every part of the body. Parts are independent: if
  /// one was sent and another failed, the answer is 200 and reports both, so that the first is not sent
  /// again.
  func sendNotification(_ request: Request, _ context: WireContext) async throws -> Response {
    let body = try await Self.body(of: request, members: ["zulip", "legacy", "nextcloud"])
    let message = Message(
      zulip: body["zulip"].present, legacy: body["legacy"].present, nextcloud: body["nextcloud"].present)
    guard message.zulip ?? message.legacy ?? message.nextcloud != nil else {
      throw APIError("\(body.path) must have zulip, legacy or nextcloud, with what is to be sent")
    }
    let results = try await notify(try await user(context), message)
    if case .failure(let failure)? = results.first?.result,
      results.allSatisfy({ if case .failure = $0.result { true } else { false } })
    {
      throw failure
    }
    return Envelope.response(.ok, results.map { .init(Name($0.name), Self.json($0.result)) })
  }

  private static func json(_ result: Result<JSON, any Error>) -> JSON {
    switch result {
    case .success(let json): return json
    case .failure(let error):
      let error = error as? APIError ?? (error is DatabaseError ? .tryAgainLater : .internalError)
      return [
        "result": "error", "status": .integer(Int64(error.status.code)), "msg": .string(error.message),
        "code": .string(error.code),
      ]
    }
  }
}
