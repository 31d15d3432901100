package import Foundation
package import SQL
package import Sealing

/// A user of the built-in chat-server side.
package struct User: Sendable, Hashable {
  /// Its row.
  package let id: Int64
  package let realm: ChatRealm
  /// Its number in the chat, which notifications tell.
  package let userID: Int64
  /// Its UUID, which bouncers know it by.
  package let uuid: UUID
  /// What it signs in with; unique in the service, whatever the case.
  package let email: String
  /// Its login at the Nextcloud endpoints; unique in the service, whatever the case.
  package let username: String
}

/// An organization whose users sign in to the built-in chat-server side.
package struct ChatRealm: Sendable, Hashable {
  /// Its row.
  package let id: Int64
  /// Under which the host application and the bouncer know it.
  package let uuid: UUID
  /// What notifications call it.
  package let name: String
  /// Its address in notifications.
  package let url: String
  /// Whether legacy notifications, which are not encrypted, must go without content.
  package let requiresE2EE: Bool
  package let createdAt: Date

  /// The host of its address; empty if it has none.
  package var host: String { URL(string: url)?.host() ?? "" }
}

/// The realms and users of the built-in chat-server side. Keys and passwords are kept as keyed hashes
/// only (`Documentation/Decisions` 0015).
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

  /// The user whose API key this is, by email without regard to case.
  package func authenticate(email: String, apiKey: String) async throws -> User? {
    try await authenticate("u.email_key = $1", email, apiKey)
  }

  /// The user whose API key this is, by username or email without regard to case. One user's username may be spelled
  /// like another's email: the key decides.
  package func authenticate(login: String, apiKey: String) async throws -> User? {
    try await authenticate("u.email_key = $1 OR u.username_key = $1", login, apiKey)
  }

  private func authenticate(_ condition: String, _ name: String, _ apiKey: String) async throws -> User? {
    // No name has U+0000, and a database would not even compare it.
    guard !name.utf8.contains(0) else { return nil }
    let rows = try await database.lookUp(
      Statement("\(Self.select), u.api_key_hash \(Self.from) WHERE \(condition)", .text(name.lowercased())))
    func opens(_ hash: [UInt8]) -> Bool { storageKey.matches(apiKey, hash: hash, for: Self.apiKeyPurpose) }
    // Whether there is such a user does not show in the time.
    if rows.isEmpty { _ = opens([UInt8](repeating: 0, count: 32)) }
    return try rows.first { opens(try $0.bytes(Self.columnCount)) }.map(User.init)
  }

  /// The user with this username, without regard to case.
  package func find(username: String) async throws -> User? {
    guard !username.utf8.contains(0) else { return nil }
    return try await find("u.username_key = $1", .text(username.lowercased()))
  }

  /// The user of a realm with this number.
  package func find(realm: UUID, userID: Int64) async throws -> User? {
    try await find("r.uuid = $1 AND u.user_id = $2", .text(realm.canonical), .integer(userID))
  }

  /// The user whose row this is.
  package func find(_ id: Int64) async throws -> User? {
    try await find("u.id = $1", .integer(id))
  }

  /// The user with this email, without regard to case.
  package func find(email: String) async throws -> User? {
    try await find("u.email_key = $1", .text(email.lowercased()))
  }

  private func find(_ condition: String, _ values: Value...) async throws -> User? {
    let statement = Statement("\(Self.select) \(Self.from) WHERE \(condition)", arguments: values)
    return try await database.lookUp(statement).first.map(User.init)
  }

  /// Every user, by realm and email.
  package func all() async throws -> [User] {
    let statement = Statement("\(Self.select) \(Self.from) ORDER BY r.name, r.id, u.email_key")
    return try await database.query(statement).map(User.init)
  }

  static let select = """
    SELECT u.id, u.user_id, u.uuid, u.email, u.username, r.id, r.uuid, r.name, r.url, r.require_e2ee, r.created_at
    """
  static let from = "FROM users u JOIN realms r ON r.id = u.realm_id"
  static let columnCount = 11
}

extension User {
  /// From the columns of ``AccountStore/select``.
  init(row: Row) throws {
    self.init(
      id: try row.int64(0), realm: try ChatRealm(row: row, from: 5), userID: try row.int64(1),
      uuid: try row.uuid(2), email: try row.text(3), username: try row.text(4))
  }
}

extension ChatRealm {
  static let columns = "id, uuid, name, url, require_e2ee, created_at"

  init(row: Row, from first: Int = 0) throws {
    self.init(
      id: try row.int64(first), uuid: try row.uuid(first + 1), name: try row.text(first + 2),
      url: try row.text(first + 3), requiresE2EE: try row.flag(first + 4),
      createdAt: try row.date(first + 5))
  }
}

extension AccountStore {
  /// Adds a realm, or makes the one that is there as told.
  ///
  /// - Parameter requiresE2EE: nil leaves it as it is, which is false for a new one.
  /// - Returns: the realm, and what it was before; nil if it is new.
  package func put(realm uuid: UUID, name: String, url: String, requiresE2EE: Bool?) async throws -> (
    realm: ChatRealm, before: ChatRealm?
  ) {
    let secret = storageKey.seal(
      RandomText.alphanumeric(64), at: SealedColumn.ownerSecret.place(.text(uuid.canonical)))
    let requirement = requiresE2EE.map { Value.flag($0) } ?? .null
    let now = now()
    return try await database.write { connection in
      let before = try connection.query(Self.selectRealm(uuid)).first.map { try ChatRealm(row: $0) }
      let row = try connection.query(
        Statement(
          """
          INSERT INTO realms (uuid, name, url, require_e2ee, owner_secret, created_at)
          VALUES ($1, $2, $3, COALESCE($4, 0), $5, $6)
          ON CONFLICT (uuid) DO UPDATE SET
            name = excluded.name, url = excluded.url, require_e2ee = COALESCE($4, realms.require_e2ee)
          RETURNING \(ChatRealm.columns)
          """, .text(uuid.canonical), .text(name), .text(url), requirement, .bytes(secret),
          .integer(now.milliseconds))
      ).returned
      return (try ChatRealm(row: row), before)
    }
  }

  package func find(realm uuid: UUID) async throws -> ChatRealm? {
    try await database.lookUp(Self.selectRealm(uuid)).first.map { try ChatRealm(row: $0) }
  }

  private static func selectRealm(_ uuid: UUID) -> Statement {
    Statement("SELECT \(ChatRealm.columns) FROM realms WHERE uuid = $1", .text(uuid.canonical))
  }

  /// Every realm, the oldest first.
  package func realms() async throws -> [ChatRealm] {
    let statement = Statement("SELECT \(ChatRealm.columns) FROM realms ORDER BY id")
    return try await database.query(statement).map { try ChatRealm(row: $0) }
  }

  /// What proves to a bouncer that the realm is ours.
  package func ownerSecret(of realm: ChatRealm) async throws -> String {
    let statement = Statement("SELECT owner_secret FROM realms WHERE id = $1", .integer(realm.id))
    guard let sealed = try await database.lookUp(statement).first?.bytes(0),
      let secret = storageKey.openText(
        sealed, at: SealedColumn.ownerSecret.place(.text(realm.uuid.canonical)))
    else { throw DatabaseError(.corrupt, "the owner secret of realm \(realm.id) does not open") }
    return secret
  }
}

extension AccountStore {
  /// Whether a text can be a realm's address: an `http` or `https` URL of at most 1024 bytes.
  package static func isURL(_ text: String) -> Bool {
    guard text.utf8.count <= 1024, let url = URL(string: text, encodingInvalidCharacters: false),
      let scheme = url.scheme?.lowercased(), let host = url.host()
    else { return false }
    return ["http", "https"].contains(scheme) && !host.isEmpty
  }

  /// Whether a text can be a user's email: 3 to 254 characters around one `@`, without white space,
  /// control characters, and the colon that would end it in an `Authorization` header.
  package static func isEmail(_ text: String) -> Bool {
    let scalars = text.unicodeScalars
    return (3...254).contains(scalars.count) && scalars.first != "@" && scalars.last != "@"
      && scalars.count { $0 == "@" } == 1
      && !scalars.contains { $0 == ":" || $0.properties.isWhitespace || isControl($0) }
  }

  /// Whether a text can be a username: 1 to 254 characters of those that an email may have, but for `/`, which
  /// would end it in an address, and the names `.` and `..`, which would lead elsewhere there.
  package static func isUsername(_ text: String) -> Bool {
    let scalars = text.unicodeScalars
    return (1...254).contains(scalars.count) && scalars.allSatisfy(canBeInUsername)
      && !scalars.elementsEqual(".".unicodeScalars) && !scalars.elementsEqual("..".unicodeScalars)
  }

  /// The usernames of a user who is given none, the most welcome first: what the email begins with, all of it,
  /// and one that nobody else has.
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

  /// Whether a text can be an API key: 32 ASCII letters and digits.
  package static func isAPIKey(_ text: String) -> Bool {
    text.utf8.count == apiKeyLength && text.utf8.allSatisfy(RandomText.alphanumerics.contains)
  }

  /// Whether a number can be a user's in the chat.
  package static func isUserID(_ number: Int64) -> Bool {
    (0...Int64(Int32.max)).contains(number)
  }

  /// Whether a text can stand where people read it: it has no control characters, of which U+0000
  /// cannot even be stored.
  package static func isReadable(_ text: String) -> Bool {
    !text.unicodeScalars.contains(where: isControl)
  }

  private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.generalCategory == .control
  }
}
