internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Registrations

extension BackendRoutes {
  /// `POST .../app-passwords`: makes an app password, which is shown only now.
  func addAppPassword(_ request: Request, _ context: WireContext) async throws -> Response {
    let name = try await Self.body(of: request, members: ["name"])["name"].name()
    let user = try await user(context)
    do {
      let (id, password) = try await accounts.addAppPassword(name: name, user: user.id)
      return Envelope.response(
        .created,
        [.init("id", .integer(id)), .init("name", .string(name)), .init("password", .string(password))])
    } catch AccountStore.AppPasswordRefusal.unknownUser {
      throw APIError.noUser(user.userID, realm: user.realm.uuid)
    } catch AccountStore.AppPasswordRefusal.tooMany {
      throw APIError.tooManyAppPasswords(user)
    }
  }

  /// `POST .../login-flows`: lets a Nextcloud app sign in that waits for it, for a host application that has
  /// a sign-in of its own.
  func grantLoginFlow(_ request: Request, _ context: WireContext) async throws -> Response {
    let token = try await Self.body(of: request, members: ["token"])["token"].string()
    let user = try await user(context)
    do {
      guard try await loginFlows.grant(login: token, user: user.id) else {
        throw APIError(
          .notFound, code: "LOGIN_FLOW_NOT_FOUND",
          "No app waits for this token: it is unknown, older than 20 minutes, or was used already")
      }
      return Self.done
    } catch AccountStore.AppPasswordRefusal.unknownUser {
      throw APIError.noUser(user.userID, realm: user.realm.uuid)
    } catch AccountStore.AppPasswordRefusal.tooMany {
      throw APIError.tooManyAppPasswords(user)
    }
  }

  /// `DELETE .../app-passwords/{app_password_id}`: from now on it opens nothing.
  func removeAppPassword(_ request: Request, _ context: WireContext) async throws -> Response {
    let id = try context.number("app_password_id")
    let user = try await user(context)
    guard try await accounts.removeAppPassword(id, user: user.id) else {
      throw APIError(
        .notFound, code: "APP_PASSWORD_NOT_FOUND", "User \(user.userID) has no app password \(id)")
    }
    return Self.done
  }
}

extension APIError {
  fileprivate static func tooManyAppPasswords(_ user: User) -> APIError {
    APIError(
      code: "TOO_MANY_APP_PASSWORDS",
      "User \(user.userID) has \(AccountStore.maximumAppPasswords) app passwords: remove one first")
  }
}
