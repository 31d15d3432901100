internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Registrations
internal import Wire

extension Backend {
  /// `POST .../app-passwords`: makes an app password, which is shown only now.
  func addAppPassword(_ request: Request, _ context: WireContext) async throws -> Response {
    let name = try await Self.body(of: request, members: ["name"])["name"].name()
    let user = try await user(context)
    do {
      let (id, password) = try await accounts.addAppPassword(name: name, user: user.id)
      return Envelope.response(
        .created,
        [.init("id", .integer(id)), .init("name", .string(name)), .init("password", .string(password))])
    } catch Accounts.AppPasswordRefusal.unknownUser {
      throw APIError.noUser(user.userID, realm: user.realm.uuid)
    } catch Accounts.AppPasswordRefusal.tooMany {
      throw APIError(
        code: "TOO_MANY_APP_PASSWORDS",
        "User \(user.userID) has \(Accounts.maximumAppPasswords) app passwords: remove one first")
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
