import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Registrations
import SQL

extension NextcloudServerRoutes {
  /// `GET cloud/capabilities`. Without a login, notifications are left out. `push` among the endpoints is for
  /// clients of the 2017 draft. What the operator's file adds is there with and without a login, since Talk asks before
  /// its login and after it.
  func capabilities(_ login: NextcloudLogin?, _ call: OCSRequest) async throws -> OCSAnswer {
    var capabilities: JSON.Object = ["core": ["pollinterval": 60]]
    if login != nil {
      capabilities["notifications"] = [
        "ocs-endpoints": [
          "list", "get", "delete", "delete-all", "icons", "rich-strings", "action-web", "user-status",
          "exists",
          "test-push", "list-filter", "push",
        ],
        "push": .array(["devices", "object-data", "delete"] + sender.webPush.capabilities),
        "admin-notifications": ["ocs", "cli"],
      ]
    }
    return OCSAnswer(
      .ok,
      data: [
        "version": Self.versionParts,
        "capabilities": .object(addedCapabilities.added(to: capabilities)),
      ])
  }

  private static var versionParts: JSON {
    let numbers = version.split(separator: ".").compactMap { Int64($0) }
    return .object(
      JSON.Object(
        zip(["major", "minor", "micro"], numbers).map { .init($0, .integer($1)) } + [
          .init("string", .string(version)), .init("edition", ""), .init("extendedSupport", false),
        ]))
  }
}

extension NextcloudServerRoutes {
  /// `GET identityproof/key/{userId}`: a user's public key for signatures, for anyone who knows the user id.
  /// Creating it takes 0.1 s, so only the user's own call does that; before, others get the same answer as
  /// for an unknown user.
  func identityProof(_ login: NextcloudLogin?, _ call: OCSRequest) async throws -> OCSAnswer {
    guard let user = try await findUser(call) else { throw Self.noUser }
    do {
      let isOwn = login?.user.id == user.id
      guard let key = try await sender.keys.publicKey(of: user.id, making: isOwn) else {
        throw Self.noUser
      }
      return OCSAnswer(.ok, data: ["public": .string(key)])
    } catch let error as DatabaseError where error.code == .foreignKeyViolation {
      // The user was removed meanwhile.
      throw Self.noUser
    }
  }

  private static var noUser: OCSAnswer { OCSAnswer(.notFound, data: ["Account not found"]) }
}

extension NextcloudServerRoutes {
  /// `GET /status.php`: identifies a Nextcloud server to apps before any login.
  func status(_ request: Request, _ context: WireContext) async throws -> Response {
    var response = Self.json([
      "installed": true, "maintenance": false, "needsDbUpgrade": false,
      "version": .string("\(Self.version).0"),
      "versionstring": .string(Self.version), "edition": "",
      "productname": .string(settings.name),
      "extendedSupport": false,
    ])
    response.headers[.accessControlAllowOrigin] = "*"
    return response
  }

  /// `GET /204`: an empty answer, by which Files for Android tells a server from the login page of a network.
  func noContent(_ request: Request, _ context: WireContext) async throws -> Response {
    Response(status: .noContent)
  }

  /// `GET cloud/user`: the signed-in user. There are no files here, so no quota is used.
  func user(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let name = JSON.string(login.user.username)
    return OCSAnswer(
      .ok,
      data: [
        "enabled": true, "storageLocation": "", "id": name, "lastLogin": 0, "backend": "Database",
        "subadmin": [],
        "quota": ["free": 0, "used": 0, "total": 0, "relative": 0, "quota": -3], "manager": "",
        "email": .string(login.user.email), "additional_mail": [], "displayname": name, "display-name": name,
        "phone": "", "address": "", "website": "", "twitter": "", "fediverse": "", "organisation": "",
        "role": "", "headline": "", "biography": "", "profile_enabled": "0", "groups": [], "language": "en",
        "locale": "en", "notify_email": nil,
        "backendCapabilities": ["setDisplayName": false, "setPassword": false],
      ])
  }

  /// `GET cloud/users/{userId}`: the same for the caller's own id; any other id gets the answer for an
  /// unknown one.
  func namedUser(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    guard try await findUser(call)?.id == login.user.id else { throw OCSAnswer.unknownPath }
    return try await user(login, call)
  }

  /// The user whose id is in the path; nil if there is none.
  func findUser(_ call: OCSRequest) async throws -> User? {
    let name = call.context.parameters.get("user_id").flatMap(\.removingPercentEncoding) ?? ""
    return name.isStorable ? try await accounts.find(username: name) : nil
  }

  /// `GET core/getapppassword`: creates an app password for a caller signed in with the account's API key.
  func makeAppPassword(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    guard login.appPassword == nil else {
      throw OCSAnswer(.forbidden, message: "An app password does not make another")
    }
    do {
      let made = try await accounts.addAppPassword(
        name: NextcloudLoginFlows.clientName(call.userAgent), user: login.user.id)
      return OCSAnswer(.ok, data: ["apppassword": .string(made.password)])
    } catch AccountStore.AppPasswordError.tooMany {
      throw OCSAnswer(
        .forbidden,
        message: "The account has \(AccountStore.maximumAppPasswords) app passwords: remove one first"
      )
    } catch AccountStore.AppPasswordError.unknownUser {
      throw OCSAnswer.notLoggedIn
    }
  }

  /// `DELETE core/apppassword`: signs the app out and ends its pushes.
  func removeAppPassword(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    guard let appPassword = login.appPassword else {
      throw OCSAnswer(.forbidden, message: "No app password was used")
    }
    _ = try await accounts.removeAppPassword(appPassword, user: login.user.id)
    return OCSAnswer(.ok)
  }
}
