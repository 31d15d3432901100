import Foundation
import HTTP
import Registrations
import Sealing

/// What the legacy calls that are forms have in common: a user, perhaps of a realm, and mostly a token
/// (`Documentation/Protocols/Zulip.md` 7.1 to 7.4).
struct LegacyParameters {
  private(set) var form: Parameters
  private var userID: Int64?
  private var userUUID: String?
  /// The realm's UUID, as it was sent.
  private(set) var realmUUID: String?

  init(_ form: Parameters) {
    self.form = form
  }

  /// Reads whose registration it is about.
  mutating func readUser() throws(APIError) {
    userID = try form.optionalInteger("user_id")
    userUUID = form.optional("user_uuid")
    realmUUID = form.optional("realm_uuid")
  }

  /// Reads the token, which is then to be checked.
  mutating func readToken() throws(APIError) -> (text: String, kind: Int64) {
    (try form.text("token", .stripped()), try form.integer("token_kind"))
  }

  /// The bundle id of an iOS app.
  mutating func readAppID() throws(APIError) -> String? {
    guard let id = form.optional("ios_app_id") else { return nil }
    guard AppID.isValid(id) else { throw APIError.invalidFormat("ios_app_id") }
    return id
  }

  /// The realm; one whose name is no UUID is one that nobody has told of, and not needed.
  var realm: UUID? { realmUUID.flatMap(UUID.init(pythonText:)) }

  /// The user, once everything before it in the order of checks was right.
  func user() throws(APIError) -> LegacyUser { try LegacyUser(id: userID, uuidText: userUUID) }
}

extension LegacyUser {
  /// A user by what a server has sent.
  init(id: Int64?, uuidText: String?) throws(APIError) {
    let uuid = uuidText.flatMap(UUID.init(pythonText:))
    if uuidText != nil, uuid == nil { throw APIError.invalidFormat("user_uuid") }
    guard let user = LegacyUser(id: id, uuid: uuid) else {
      throw APIError.missingParameter("user_id or user_uuid")
    }
    self = user
  }
}

extension PushToken {
  /// A token with Zulip's number for its kind.
  init(_ text: String, legacyKind: Int64) throws(APIError) {
    guard let kind = Kind(storage: legacyKind) else { throw APIError.invalidTokenType }
    do {
      self = try PushToken(text, kind: kind)
    } catch {
      throw APIError(error.description)
    }
  }
}
