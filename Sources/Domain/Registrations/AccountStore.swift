package import Foundation
package import SQL
package import Sealing

/// A user of the built-in chat-server side.
package struct User: Sendable, Hashable {
  package let id: Int64
  package let realm: ChatRealm
  /// Number within the realm, which notifications carry.
  package let userID: Int64
  /// UUID by which bouncers know the user.
  package let uuid: UUID
  /// Login at the Zulip endpoints; unique in the service, ignoring case.
  package let email: String
  /// Login at the Nextcloud endpoints; unique in the service, ignoring case.
  package let username: String
}

/// An organization whose users sign in to the built-in chat-server side.
package struct ChatRealm: Sendable, Hashable {
  package let id: Int64
  /// UUID by which the host application and the bouncer know the realm.
  package let uuid: UUID
  /// Name shown in notifications.
  package let name: String
  /// URL sent in notifications.
  package let url: String
  /// Whether old apps, whose notifications are not encrypted, get none.
  package let requiresE2EE: Bool
  package let createdAt: Date

  /// The host of its URL; empty if there is none.
  package var host: String { URL(string: url)?.host() ?? "" }
}

/// The realms and users of the built-in chat-server side. Keys and passwords are stored only as keyed hashes
/// (`Documentation/Decisions` 0015).
package struct AccountStore: Sendable {
  /// Letters and digits in an API key.
  package static let apiKeyLength = 32

  static let apiKeyPurpose = StorageKey.Purpose("users.api_key")

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// The user with this email (ignoring case) and API key.
  package func authenticate(email: String, apiKey: String) async throws -> User? {
    try await authenticate("u.email_key = $1", email, apiKey)
  }

  /// The user with this username or email (ignoring case) and API key. One user's username may be spelled
  /// like another's email; the key decides.
  package func authenticate(login: String, apiKey: String) async throws -> User? {
    try await authenticate("u.email_key = $1 OR u.username_key = $1", login, apiKey)
  }

  private func authenticate(_ condition: String, _ name: String, _ apiKey: String) async throws -> User? {
    // No name contains U+0000, which a database cannot even compare.
    guard !name.utf8.contains(0) else { return nil }
    let rows = try await database.lookUp(
      "\(Self.select), u.api_key_hash \(Self.from) WHERE \(condition)", .text(name.lowercased()))
    func opens(_ hash: [UInt8]) -> Bool { storageKey.matches(apiKey, hash: hash, for: Self.apiKeyPurpose) }
    // Compares a key even without a user, so that the response time does not reveal whether the user exists.
    if rows.isEmpty { _ = opens([UInt8](repeating: 0, count: 32)) }
    return try rows.first { opens(try $0.bytes("api_key_hash")) }.map(User.init)
  }

  /// The user with this username, ignoring case.
  package func find(username: String) async throws -> User? {
    guard !username.utf8.contains(0) else { return nil }
    return try await find("u.username_key = $1", .text(username.lowercased()))
  }

  /// The user with this number in a realm.
  package func find(realm: UUID, userID: Int64) async throws -> User? {
    try await find("r.uuid = $1 AND u.user_id = $2", .text(realm.canonical), .integer(userID))
  }

  /// The user with this row id.
  package func find(_ id: Int64) async throws -> User? {
    try await find("u.id = $1", .integer(id))
  }

  /// The user with this email, ignoring case.
  package func find(email: String) async throws -> User? {
    try await find("u.email_key = $1", .text(email.lowercased()))
  }

  private func find(_ condition: String, _ values: Value...) async throws -> User? {
    let statement = Statement("\(Self.select) \(Self.from) WHERE \(condition)", arguments: values)
    return try await database.lookUp(statement).first.map(User.init)
  }

  /// All users, by realm and email.
  package func all() async throws -> [User] {
    try await database.query("\(Self.select) \(Self.from) ORDER BY r.name, r.id, u.email_key").map(User.init)
  }

  static let select = """
    SELECT u.id AS account_id, u.user_id, u.uuid AS user_uuid, u.email, u.username, r.id, r.uuid, r.name, r.url,
      r.require_e2ee, r.created_at
    """
  static let from = "FROM users u JOIN realms r ON r.id = u.realm_id"
}

extension User {
  /// Reads the columns of ``AccountStore/select``.
  init(row: Row) throws {
    self.init(
      id: try row.int64("account_id"), realm: try ChatRealm(row: row), userID: try row.int64("user_id"),
      uuid: try row.uuid("user_uuid"), email: try row.text("email"), username: try row.text("username"))
  }
}

extension ChatRealm {
  static let columns = "id, uuid, name, url, require_e2ee, created_at"

  init(row: Row) throws {
    self.init(
      id: try row.int64("id"), uuid: try row.uuid("uuid"), name: try row.text("name"),
      url: try row.text("url"),
      requiresE2EE: try row.flag("require_e2ee"), createdAt: try row.date("created_at"))
  }
}

extension AccountStore {
  /// Creates a realm, or updates an existing one.
  ///
  /// - Parameter requiresE2EE: nil leaves it unchanged; false for a new realm.
  /// - Returns: the realm, and its previous state; nil if it is new.
  package func put(realm uuid: UUID, name: String, url: String, requiresE2EE: Bool?) async throws -> (
    realm: ChatRealm, before: ChatRealm?
  ) {
    let secret = storageKey.seal(
      RandomText.alphanumeric(64), at: SealedColumn.ownerSecret.place(.text(uuid.canonical)))
    let requirement = requiresE2EE.map { Value.flag($0) } ?? .null
    let now = now()
    return try await database.write { connection in
      let before = try connection.query(Self.selectRealm(uuid)).first.map(ChatRealm.init)
      let row = try connection.query(
        """
        INSERT INTO realms (uuid, name, url, require_e2ee, owner_secret, created_at)
        VALUES ($1, $2, $3, COALESCE($4, 0), $5, $6)
        ON CONFLICT (uuid) DO UPDATE SET
          name = excluded.name, url = excluded.url, require_e2ee = COALESCE($4, realms.require_e2ee)
        RETURNING \(ChatRealm.columns)
        """, .text(uuid.canonical), .text(name), .text(url), requirement, .bytes(secret),
        .integer(now.milliseconds)
      ).returned
      return (try ChatRealm(row: row), before)
    }
  }

  package func find(realm uuid: UUID) async throws -> ChatRealm? {
    try await database.lookUp(Self.selectRealm(uuid)).first.map(ChatRealm.init)
  }

  private static func selectRealm(_ uuid: UUID) -> Statement {
    Statement("SELECT \(ChatRealm.columns) FROM realms WHERE uuid = $1", .text(uuid.canonical))
  }

  /// All realms, the oldest first.
  package func realms() async throws -> [ChatRealm] {
    try await database.query("SELECT \(ChatRealm.columns) FROM realms ORDER BY id").map(ChatRealm.init)
  }

  /// The secret that proves to a bouncer that the realm belongs to this server.
  package func ownerSecret(of realm: ChatRealm) async throws -> String {
    let statement = Statement("SELECT owner_secret FROM realms WHERE id = $1", .integer(realm.id))
    guard let sealed = try await database.lookUp(statement).first?.bytes("owner_secret"),
      let secret = storageKey.openText(
        sealed, at: SealedColumn.ownerSecret.place(.text(realm.uuid.canonical)))
    else { throw DatabaseError(.corrupt, "the owner secret of realm \(realm.id) does not open") }
    return secret
  }
}

extension AccountStore {
  /// Whether a text is valid as a realm's URL: `http` or `https`, at most 1024 bytes.
  package static func isURL(_ text: String) -> Bool {
    guard text.utf8.count <= 1024, let url = URL(string: text, encodingInvalidCharacters: false),
      let scheme = url.scheme?.lowercased(), let host = url.host()
    else { return false }
    return ["http", "https"].contains(scheme) && !host.isEmpty
  }

  /// Whether a text is valid as a user's email: 3 to 254 characters around one `@`, without white space,
  /// control characters, or a colon, which would end it in an `Authorization` header.
  package static func isEmail(_ text: String) -> Bool {
    let scalars = text.unicodeScalars
    return (3...254).contains(scalars.count) && scalars.first != "@" && scalars.last != "@"
      && scalars.count { $0 == "@" } == 1
      && !scalars.contains { $0 == ":" || $0.properties.isWhitespace || isControl($0) }
  }

  /// Whether a text is valid as a username: 1 to 254 of the characters of an email except `/`, which would
  /// end it in a URL path, and not `.` or `..`, which have another meaning there.
  package static func isUsername(_ text: String) -> Bool {
    let scalars = text.unicodeScalars
    return (1...254).contains(scalars.count) && scalars.allSatisfy(canBeInUsername)
      && !scalars.elementsEqual(".".unicodeScalars) && !scalars.elementsEqual("..".unicodeScalars)
  }

  /// Usernames for a user without a given one, in order of preference: the email's local part, the whole
  /// email, and a unique one.
  static func usernames(for email: String, _ uuid: UUID) -> [String] {
    [String(email.unicodeScalars.prefix { $0 != "@" }), email].map { text in
      var name = String.UnicodeScalarView()
      name.append(contentsOf: text.unicodeScalars.map { canBeInUsername($0) ? $0 : "_" })
      return String(name)
    }.filter(isUsername) + [uuid.canonical]
  }

  private static func canBeInUsername(_ scalar: Unicode.Scalar) -> Bool {
    scalar != ":" && scalar != "/" && !scalar.properties.isWhitespace && !isControl(scalar)
  }

  /// Whether a text has the form of an API key: 32 ASCII letters and digits.
  package static func isAPIKey(_ text: String) -> Bool {
    text.utf8.count == apiKeyLength && text.utf8.allSatisfy(RandomText.alphanumerics.contains)
  }

  /// Whether a number is valid as a user's number in the chat.
  package static func isUserID(_ number: Int64) -> Bool {
    (0...Int64(Int32.max)).contains(number)
  }

  /// Whether a text can be shown to people: it has no control characters. (U+0000 cannot even be stored.)
  package static func isReadable(_ text: String) -> Bool {
    !text.unicodeScalars.contains(where: isControl)
  }

  private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.generalCategory == .control
  }
}
