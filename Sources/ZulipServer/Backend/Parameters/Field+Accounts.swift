internal import Foundation
internal import HTTP
internal import Registrations

extension Field {
  /// A name that people read: 1 to 100 characters, white space around it dropped.
  func name() throws(APIError) -> String {
    let text = try TextRules.stripped(maximum: 100).apply(to: try string(), name: path)
    guard AccountStore.isReadable(text) else { throw error("has control characters") }
    return text
  }

  /// The address of a realm.
  func url() throws(APIError) -> String {
    try checked("is not an http or https URL of at most 1024 bytes", AccountStore.isURL)
  }

  /// What a user signs in with.
  func email() throws(APIError) -> String {
    try checked("is not a valid email address of 3 to 254 characters", AccountStore.isEmail)
  }

  /// A user's login at the Nextcloud endpoints.
  func username() throws(APIError) -> String {
    try checked(
      "is not 1 to 254 characters without white space, control characters, : and /", AccountStore.isUsername)
  }

  /// A user's key; an error does not repeat it.
  func apiKey() throws(APIError) -> String {
    try checked("is not \(AccountStore.apiKeyLength) letters and digits", AccountStore.isAPIKey)
  }

  /// A UUID of any version, in its usual spelling.
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
