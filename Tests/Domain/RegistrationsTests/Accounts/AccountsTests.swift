import Foundation
import Registrations
import SQL
import Sealing
import TestStore
import TestSupport
import Testing

@Suite("Accounts") struct AccountsTests {
  private let store: Store
  private let accounts: AccountStore
  private let realm = UUID()

  init() async throws {
    store = try await Store()
    accounts = AccountStore(
      database: store.database, storageKey: store.storageKey, now: { [clock = store.clock] in clock.now })
    _ = try await accounts.put(
      realm: realm, name: "Example", url: "https://chat.example.org", requiresE2EE: nil)
  }

  private func add(_ email: String, id: Int64? = nil, username: String? = nil) async throws -> (
    user: User, apiKey: String
  ) {
    try await accounts.add(.init(email: email, username: username), userID: id, realm: realm)
  }

  /// The user of a login with an app password.
  private func phone(_ login: String, _ secret: String) async throws -> User? {
    let found = try await accounts.login(login, secret: secret)
    return found?.appPassword == nil ? nil : found?.user
  }

  private func opens(_ email: String, _ key: String) async throws -> Int64? {
    try await accounts.authenticate(email: email, apiKey: key)?.id
  }

  @Test
  func `of realms tell what a realm was before`() async throws {
    let uuid = UUID()
    let (first, nothing) = try await accounts.put(realm: uuid, name: "A", url: "u", requiresE2EE: true)
    #expect(nothing == nil)
    #expect(first.uuid == uuid && first.requiresE2EE && first.createdAt == store.clock.now)
    store.clock.advance(1)
    let (second, before) = try await accounts.put(realm: uuid, name: "B", url: "v", requiresE2EE: nil)
    #expect(before == first)
    #expect(second.id == first.id && second.name == "B" && second.url == "v" && second.requiresE2EE)
    #expect(second.createdAt == first.createdAt)
    #expect(try await accounts.find(realm: uuid) == second)
    #expect(try await accounts.find(realm: UUID()) == nil)
    #expect(try await accounts.realms().map(\.uuid) == [realm, uuid])
  }

  /// As after a move by logical replication. The service's database brings it forward; this one does not.
  @Test
  func `are not taken for others because a sequence is behind`() async throws {
    guard store.database.engine == .postgreSQL else { return }
    _ = try await add("a@example.org", id: 7)
    try await store.database.write { connection in
      _ = try connection.query(Statement("SELECT setval('users_id_seq', 1, false)"))
    }
    let error = await #expect(throws: DatabaseError.self) { try await add("b@example.org", id: 8) }
    #expect(error?.code == .uniqueViolation && error?.constraint == "users_pkey")
  }

  @Test
  func `of realms keep their owner secret, sealed`() async throws {
    let chat = try #require(try await accounts.find(realm: realm))
    let secret = try await accounts.ownerSecret(of: chat)
    #expect(secret.count == 64)
    _ = try await accounts.put(realm: realm, name: "New", url: "u", requiresE2EE: nil)
    #expect(try await accounts.ownerSecret(of: chat) == secret)
    #expect(try await store.contents().range(of: Data(secret.utf8)) == nil)
  }

  @Test
  func `are added with the next number and a key that opens them`() async throws {
    let (first, key) = try await add("Iago@example.org")
    #expect(first.userID == 10 && first.username == "Iago" && first.realm.uuid == realm)
    #expect(try await opens("IAGO@example.org", key) == first.id)
    #expect(try await opens("iago@example.org", key + "x") == nil)
    #expect(try await opens("iago@example.org", "") == nil)
    #expect(try await opens("other@example.org", key) == nil)
    #expect(try await opens("iago@example.org\u{0}", key) == nil)
    #expect(try await add("b@example.org", id: 40).user.userID == 40)
    #expect(try await add("c@example.org").user.userID == 41)
    let other = UUID()
    _ = try await accounts.put(realm: other, name: "Other", url: "u", requiresE2EE: nil)
    let elsewhere = try await accounts.add(.init(email: "d@example.org"), userID: nil, realm: other)
    #expect(elsewhere.user.userID == 10)
    #expect(try await accounts.all().map(\.email).count == 4)
    // Neither URLs nor passwords in headers have room for these in a name.
    #expect(try await add("a/b:c@example.org").user.username == "a_b_c")
  }

  @Test
  func `are not added over others, and nothing changes then`() async throws {
    _ = try await add("iago@example.org")
    _ = try await add("last@example.org", id: Int64(Int32.max))
    let before = try await store.rows("SELECT * FROM users")
    await #expect(throws: AccountStore.UserError.emailTaken) {
      try await add("IAGO@example.org", id: 5, username: "x")
    }
    await #expect(throws: AccountStore.UserError.usernameTaken) {
      try await add("x@example.org", id: 5, username: "IAGO")
    }
    await #expect(throws: AccountStore.UserError.userIDTaken) { try await add("x@example.org", id: 10) }
    await #expect(throws: AccountStore.UserError.noUserIDLeft) { try await add("x@example.org") }
    await #expect(throws: AccountStore.UserError.unknownRealm) {
      try await accounts.add(.init(email: "x@example.org"), userID: nil, realm: UUID())
    }
    await #expect(throws: AccountStore.UserError.unknownRealm) {
      try await accounts.put(.init(email: "x@example.org"), userID: 10, realm: UUID())
    }
    #expect(try await store.rows("SELECT * FROM users") == before)
  }

  @Test(arguments: [
    ("NEW.email_key, 'x', NEW.user_id + 1", AccountStore.UserError.emailTaken),
    ("'x', NEW.username_key, NEW.user_id + 1", .usernameTaken), ("'x', 'x', NEW.user_id", .userIDTaken),
  ])
  func `that another node adds at the same moment are told as taken by what they share`(
    shared: String, refusal: AccountStore.UserError
  ) async throws {
    guard store.database.engine == .sqlite else { return }
    // The other one comes between the look whether they are free and the insertion.
    try await store.database.write {
      try $0.runScript(
        """
        CREATE TRIGGER other_node BEFORE INSERT ON users BEGIN
          INSERT INTO users
            (email_key, username_key, user_id, realm_id, uuid, email, username, api_key_hash, last_event, created_at)
          VALUES (\(shared), NEW.realm_id, 'x', 'x', 'x', x'00', 0, 0);
        END
        """)
    }
    await #expect(throws: refusal) { try await add("iago@example.org", id: 5, username: "iago") }
    #expect(try await accounts.all().isEmpty)
  }

  @Test
  func `that many want at once go to one`() async throws {
    let results = await withTaskGroup(of: Bool.self) { group in
      for id in Int64(1)...20 {
        group.addTask {
          do {
            _ = try await accounts.put(
              .init(email: "iago@example.org", username: "u\(id)"), userID: id, realm: realm)
            return true
          } catch {
            return error as? AccountStore.UserError != .emailTaken
          }
        }
      }
      return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
    }
    #expect(results == 1)
    #expect(try await accounts.all().count == 1)
  }

  @Test
  func `have app passwords that open by username and by email, whatever the case`() async throws {
    let (user, key) = try await add("Iago@example.org", username: "iago.the.first")
    let (other, _) = try await add("cordelia@example.org")
    let (id, password) = try await accounts.addAppPassword(name: "Phone", user: user.id)
    #expect(password.count == AccountStore.appPasswordLength)
    for login in ["iago@EXAMPLE.org", "IAGO.the.first"] {
      #expect(try await phone(login, password) == user)
    }
    for login in ["iago", "cordelia", "cordelia@example.org", "", "iago@example.org\u{0}", "%"] {
      #expect(try await phone(login, password) == nil)
    }
    for wrong in [key, "", String(password.dropLast()), password + "x", password.lowercased()] {
      #expect(try await phone("iago@example.org", wrong) == nil)
    }
    #expect(try await opens("iago@example.org", password) == nil)

    #expect(try await !accounts.removeAppPassword(id, user: other.id))
    #expect(try await !accounts.removeAppPassword(id + 1, user: user.id))
    #expect(try await phone("iago@example.org", password) == user)
    #expect(try await accounts.removeAppPassword(id, user: user.id))
    #expect(try await phone("iago@example.org", password) == nil)
    #expect(try await !accounts.removeAppPassword(id, user: user.id))
  }

  @Test
  func `open by their own app password though a username is spelled like another's email`() async throws {
    let (first, _) = try await add("iago@example.org", username: "x")
    let (second, _) = try await add("y@example.org", username: "iago@example.org")
    let (_, firsts) = try await accounts.addAppPassword(name: "Phone", user: first.id)
    let (_, seconds) = try await accounts.addAppPassword(name: "Phone", user: second.id)
    #expect(try await phone("iago@example.org", firsts) == first)
    #expect(try await phone("iago@example.org", seconds) == second)
  }

  @Test
  func `have a hundred app passwords at most, also when they are asked for at once`() async throws {
    let (user, _) = try await add("iago@example.org")
    let refused = await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<120 {
        group.addTask {
          do {
            _ = try await accounts.addAppPassword(name: "Phone", user: user.id)
            return false
          } catch {
            return error as? AccountStore.AppPasswordError == .tooMany
          }
        }
      }
      return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
    }
    #expect(refused == 20)
    #expect(try await store.rows("SELECT COUNT(*) FROM app_passwords") == [[.integer(100)]])
    await #expect(throws: AccountStore.AppPasswordError.unknownUser) {
      try await accounts.addAppPassword(name: "Phone", user: user.id + 1)
    }
  }

  @Test
  func `keep keys and passwords only as hashes`() async throws {
    let given = String(repeating: "Zq7", count: 10) + "Zq"
    let (user, made) = try await add("iago@example.org")
    let (_, password) = try await accounts.addAppPassword(name: "Phone of Iago", user: user.id)
    _ = try await accounts.put(
      .init(email: "iago@example.org", apiKey: given), userID: user.userID, realm: realm)
    #expect(try await opens("iago@example.org", given) == user.id)
    #expect(try await opens("iago@example.org", made) == nil)
    let files = try await store.contents()
    // That this is found shows that it is the right place to look.
    #expect(files.range(of: Data("Phone of Iago".utf8)) != nil)
    for secret in [given, made, password] {
      #expect(files.range(of: Data(secret.utf8)) == nil)
      #expect(files.range(of: Data(secret.utf8.prefix(16))) == nil)
    }
    // Nor does a hash of one kind serve as one of the other.
    let hashes = try await store.rows(
      "SELECT api_key_hash FROM users UNION ALL SELECT password_hash FROM app_passwords")
    #expect(Set(hashes).count == 2)
  }
}
