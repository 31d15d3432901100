public import Foundation
internal import SQL
internal import Sealing

extension Accounts {
  /// A user as it is to be.
  public struct UserDescription: Sendable {
    /// What it signs in with.
    public var email: String
    /// nil keeps it, or makes one.
    public var uuid: UUID?
    /// 32 letters and digits; nil keeps it, or makes one.
    public var apiKey: String?
    /// nil keeps it, or takes the email's local part.
    public var username: String?

    /// A description by its parts.
    public init(email: String, uuid: UUID? = nil, apiKey: String? = nil, username: String? = nil) {
      self.email = email
      self.uuid = uuid
      self.apiKey = apiKey
      self.username = username
    }
  }

  /// Why a user cannot be as told.
  public enum Refusal: Error, Hashable {
    /// No such realm.
    case unknownRealm
    /// Another user has this email.
    case emailTaken
    /// Another user has this username.
    case usernameTaken
  }

  /// Adds a user, or makes the one that is there as told.
  ///
  /// - Returns: the user; its API key if it was given or made now; and whether the user is new.
  /// - Throws: ``Refusal``, or the database's own error.
  public func put(_ description: UserDescription, userID: Int64, realm: UUID) async throws -> (
    user: User, apiKey: String?, isNew: Bool
  ) {
    let newKey = description.apiKey ?? RandomText.alphanumeric(Self.apiKeyLength)
    do {
      return try await database.write { [self] connection in
        guard
          let realmID = try connection.query(
            Statement("SELECT id FROM realms WHERE uuid = $1", .text(realm.canonical))
          ).first?.int64(0)
        else { throw Refusal.unknownRealm }
        let before = try connection.query(
          Statement(
            "SELECT id, username, uuid FROM users WHERE realm_id = $1 AND user_id = $2", .integer(realmID),
            .integer(userID))
        ).first
        let username =
          try description.username ?? before?.text(1)
          ?? String(description.email.prefix { $0 != "@" })
        let id = try before?.int64(0)
        try connection.check(description.email, username, byOtherThan: id)
        let keyHash = storageKey.hash(newKey, for: Self.apiKeyPurpose)
        let values: [Value] = [
          .text(description.email), .text(description.email.lowercased()), .text(username),
          .text(username.lowercased()),
        ]
        if let before, let id {
          let uuid = try description.uuid?.canonical ?? before.text(2)
          try connection.run(
            Statement(
              """
              UPDATE users SET email = $1, email_key = $2, username = $3, username_key = $4, uuid = $5,
                api_key_hash = COALESCE($6, api_key_hash)
              WHERE id = $7
              """,
              arguments: values + [
                .text(uuid), description.apiKey == nil ? .null : .bytes(keyHash), .integer(id),
              ]))
        } else {
          try connection.run(
            Statement(
              """
              INSERT INTO users
                (email, email_key, username, username_key, uuid, api_key_hash, realm_id, user_id, last_event, created_at)
              VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9)
              """,
              arguments: values + [
                .text((description.uuid ?? UUID()).canonical), .bytes(keyHash), .integer(realmID),
                .integer(userID), .integer(now().milliseconds),
              ]))
        }
        let rows = try connection.query(
          Statement(
            "\(Self.select) \(Self.from) WHERE u.realm_id = $1 AND u.user_id = $2", .integer(realmID),
            .integer(userID)))
        guard let user = try rows.first.map(User.init) else {
          throw DatabaseError(.other, "an insertion left no row")
        }
        let isKeyNew = before == nil || description.apiKey != nil
        return (user, isKeyNew ? newKey : nil, before == nil)
      }
    } catch let error as DatabaseError where error.code == .uniqueViolation {
      // Two nodes may both find it free: the constraint then decides.
      throw error.constraint?.contains("username") == true ? Refusal.usernameTaken : Refusal.emailTaken
    }
  }

  /// A number that no user of the realm has.
  public func freeUserID(realm: UUID) async throws -> Int64 {
    let statement = Statement(
      """
      SELECT COALESCE(MAX(u.user_id), 9) + 1 FROM users u JOIN realms r ON r.id = u.realm_id WHERE r.uuid = $1
      """, .text(realm.canonical))
    return try await database.read { try $0.query(statement).first?.int64(0) } ?? 10
  }
}

extension Connection {
  fileprivate func check(_ email: String, _ username: String, byOtherThan id: Int64?) throws {
    func isTaken(_ column: String, _ text: String) throws -> Bool {
      try query(Statement("SELECT id FROM users WHERE \(column) = $1", .text(text.lowercased())))
        .contains { try $0.int64(0) != id }
    }
    if try isTaken("email_key", email) { throw Accounts.Refusal.emailTaken }
    if try isTaken("username_key", username) { throw Accounts.Refusal.usernameTaken }
  }
}
