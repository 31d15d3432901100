import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Registrations
import SQL

extension BackendRoutes {
  /// Creates a user, or updates an existing one.
  func putUser(_ request: Request, _ context: WireContext) async throws -> Response {
    let (realm, userID) = try context.userAddress()
    let body = try await Self.body(of: request, members: ["email", "user_uuid", "api_key", "username"])
    let description = AccountStore.UserDescription(
      email: try body["email"].email(), uuid: try body["user_uuid"].present?.uuid(),
      apiKey: try body["api_key"].present?.apiKey(), username: try body["username"].present?.username())
    do {
      let (user, apiKey, isNew) = try await accounts.put(
        description, userID: userID, realm: realm, newKey: devices.signOut)
      if apiKey != nil, !isNew { devices.changed(user.id) }
      return Envelope.response(isNew ? .created : .ok, user.members(apiKey: apiKey))
    } catch let refusal as AccountStore.UserError {
      switch refusal {
      case .unknownRealm: throw APIError.noRealm(realm)
      case .emailTaken:
        throw APIError(
          .conflict, code: "EMAIL_TAKEN", "Another user has the email \(description.email)")
      case .usernameTaken:
        throw APIError(
          .conflict, code: "USERNAME_TAKEN",
          "Another user has the username \(description.username ?? description.email)")
      // Possible only if another process creates the same user concurrently.
      case .userIDTaken, .noUserIDLeft: throw APIError.tryAgainLater
      }
    }
  }

  func removeUser(_ request: Request, _ context: WireContext) async throws -> Response {
    try await devices.remove(user: try await user(context).id)
    return Self.done
  }

  func user(_ context: WireContext) async throws -> User {
    let (realm, userID) = try context.userAddress()
    guard let user = try await accounts.find(realm: realm, userID: userID) else {
      let hasRealm = try await accounts.find(realm: realm) != nil
      throw hasRealm ? APIError.noUser(userID, realm: realm) : APIError.noRealm(realm)
    }
    return user
  }
}

extension User {
  fileprivate func members(apiKey: String?) -> [JSON.Object.Member] {
    [
      .init("user_id", .integer(userID)), .init("email", .string(email)),
      .init("user_uuid", .string(uuid.canonical)), .init("username", .string(username)),
    ] + (apiKey.map { [.init("api_key", .string($0))] } ?? [])
  }
}

extension BackendRoutes {
  /// Creates an app password, which is shown only in this answer.
  func addAppPassword(_ request: Request, _ context: WireContext) async throws -> Response {
    let name = try await Self.body(of: request, members: ["name"])["name"].name()
    let (id, password) = try await adding(for: try await user(context)) { user in
      try await accounts.addAppPassword(name: name, user: user.id)
    }
    return Envelope.response(
      .created,
      [.init("id", .integer(id)), .init("name", .string(name)), .init("password", .string(password))])
  }

  /// Grants access to a waiting Nextcloud app, for a host application with a sign-in of its own.
  func grantLoginFlow(_ request: Request, _ context: WireContext) async throws -> Response {
    let token = try await Self.body(of: request, members: ["token"])["token"].string()
    let isGranted = try await adding(for: try await user(context)) { user in
      try await loginFlows.grant(login: token, user: user.id)
    }
    guard isGranted else {
      throw APIError(
        .notFound, code: "LOGIN_FLOW_NOT_FOUND",
        "No app waits for this token: it is unknown, older than 20 minutes, or was used already")
    }
    return Self.done
  }

  /// Removes an app password.
  func removeAppPassword(_ request: Request, _ context: WireContext) async throws -> Response {
    let id = try context.number("app_password_id")
    let user = try await user(context)
    guard try await accounts.removeAppPassword(id, user: user.id) else {
      throw APIError(
        .notFound, code: "APP_PASSWORD_NOT_FOUND", "User \(user.userID) has no app password \(id)")
    }
    return Self.done
  }

  /// Runs `body`, which adds an app password, and converts its refusals.
  private func adding<Result>(
    for user: User, _ body: (User) async throws -> Result
  ) async throws -> Result {
    do {
      return try await body(user)
    } catch AccountStore.AppPasswordError.unknownUser {
      throw APIError.noUser(user.userID, realm: user.realm.uuid)
    } catch AccountStore.AppPasswordError.tooMany {
      throw APIError(
        code: "TOO_MANY_APP_PASSWORDS",
        "User \(user.userID) has \(AccountStore.maximumAppPasswords) app passwords: remove one first")
    }
  }
}
