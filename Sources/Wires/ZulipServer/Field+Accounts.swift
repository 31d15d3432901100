import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Registrations
import SQL

extension Field {
  /// A name for people: 1 to 100 characters, without surrounding white space.
  func name() throws(APIError) -> String {
    let text = try TextRules.stripped(maximum: 100).apply(to: try string(), name: path)
    guard AccountStore.isReadable(text) else { throw error("has control characters") }
    return text
  }

  func url() throws(APIError) -> String {
    try checked("is not an http or https URL of at most 1024 bytes", AccountStore.isURL)
  }

  func email() throws(APIError) -> String {
    try checked("is not a valid email address of 3 to 254 characters", AccountStore.isEmail)
  }

  /// A user's login at the Nextcloud endpoints.
  func username() throws(APIError) -> String {
    try checked(
      "is not 1 to 254 characters without white space, control characters, : and /", AccountStore.isUsername)
  }

  /// A user's API key; errors do not repeat it.
  func apiKey() throws(APIError) -> String {
    try checked("is not \(AccountStore.apiKeyLength) letters and digits", AccountStore.isAPIKey)
  }

  /// A UUID of any version, with hyphens.
  func uuid() throws(APIError) -> UUID {
    guard let uuid = UUID(hyphenated: try string()) else { throw error("is not a UUID") }
    return uuid
  }

  private func checked(_ fault: String, _ isValid: (String) -> Bool) throws(APIError) -> String {
    let text = try string()
    guard isValid(text) else { throw error(fault) }
    return text
  }
}

extension WireContext {
  /// The realm in the path. Its UUID must have version 4, since bouncers accept no other.
  func realmUUID() throws(APIError) -> UUID {
    guard let uuid = parameters.get("realm_uuid").flatMap({ UUID(hyphenated: $0) }), uuid.isVersion4 else {
      throw APIError("realm_uuid is not a UUID of version 4")
    }
    return uuid
  }

  /// The realm and the user's number in the path.
  func userAddress() throws(APIError) -> (realm: UUID, userID: Int64) {
    let realm = try realmUUID()
    let userID = try number("user_id")
    guard AccountStore.isUserID(userID) else {
      throw APIError("user_id is not an integer from 0 to \(Int32.max)")
    }
    return (realm, userID)
  }

  /// A number in the path, in its canonical spelling.
  func number(_ name: String) throws(APIError) -> Int64 {
    guard let text = parameters.get(name), let number = Int64(text), number >= 0, String(number) == text
    else {
      throw APIError("\(name) is not a whole number")
    }
    return number
  }
}

extension APIError {
  static func noRealm(_ uuid: UUID) -> APIError {
    APIError(.notFound, code: "REALM_NOT_FOUND", "There is no realm \(uuid.canonical)")
  }

  static func noUser(_ userID: Int64, realm: UUID) -> APIError {
    APIError(.notFound, code: "USER_NOT_FOUND", "Realm \(realm.canonical) has no user \(userID)")
  }
}
