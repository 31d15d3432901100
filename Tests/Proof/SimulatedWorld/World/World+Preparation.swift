import Basics
import Crypto
import Foundation
import HTTPClient
import NextcloudServer
import Operator
import Providers
import Registrations
import SQL
import Sealing
import ZulipBouncer

/// What all worlds have in common.
extension World {
  struct Identity: Sendable {
    let uuid: String
    /// Row id.
    let id: Int64
    let key: String
    let realm: String
  }

  /// What `prepare` has made.
  nonisolated(unsafe) private(set) static var template: [UInt8] = []
  /// The same, with chat servers that have an upstream link.
  nonisolated(unsafe) private(set) static var linkedTemplate: [UInt8] = []
  /// The same, with several tenants.
  nonisolated(unsafe) private(set) static var tenantsTemplate: [UInt8] = []
  nonisolated(unsafe) private(set) static var servers: [Identity] = []
  /// The number of chat servers that a world with several tenants may have.
  static let tenantServers = 3
  /// Their identities, for each of their realms.
  nonisolated(unsafe) private(set) static var tenants: [[Identity]] = []
  /// The chat servers of strangers.
  nonisolated(unsafe) private(set) static var strangers: [Identity] = []
  /// The identity with which the built-in chat server calls its bouncer.
  nonisolated(unsafe) private(set) static var chatIdentity: Identity?
  nonisolated(unsafe) private(set) static var credentials = Credentials()
  /// The store's app's.
  nonisolated(unsafe) private(set) static var secondCredential: APNsCredential?
  /// Replaces the key of another credential.
  nonisolated(unsafe) private(set) static var spareKey = ""
  nonisolated(unsafe) private(set) static var settings: Configuration?

  static func ownerSecret(_ number: Int) -> String { "zuliprealm_secret\(number)" }

  /// Makes the data that all worlds start with, once. It does not depend on a seed.
  ///
  /// - Parameter hasNextcloudServer: whether users get keys at the built-in Nextcloud server, which take long; the last
  ///   has to wait until it is needed.
  static func prepare(hasNextcloudServer: Bool) async throws {
    let empty = try await DatabaseServer.template()
    let server = try DatabaseServer(copyOf: empty)
    credentials = Credentials(
      apns: [
        APNsCredential(
          name: "main", keyID: "ABCDEFGHIJ", teamID: "TEAM123456",
          privateKey: P256.Signing.PrivateKey().pemRepresentation, topics: [topic, "com.nextcloud.Talk"],
          environment: .production)
      ],
      fcm: [
        FCMCredential(
          name: "default", projectID: "p", clientEmail: "a@example.org", privateKeyID: "k", privateKey: "",
          tokenURI: URL(string: "https://oauth2.example.org/token")!)
      ])
    (settings, _) = try Configuration.load(
      file: nil, environment: [:],
      overrides: [
        "retention.expired_days": "2", "bouncer.rate_limit.per_server": "0",
        "http.rate_limit.per_address": "0", "upstream.url": "https://push.vendor.example",
        "server.rate_limit.per_user": "0",
      ], workingDirectory: "/")
    let now: @Sendable () -> Date = { Date(timeIntervalSince1970: epoch) }
    let storageKey = StorageKey(bytes: Node.storageKey)
    let database = DatabaseServer.Direct(server: server)
    func addServer(_ number: Int, of domain: String, realms: Int = 1) async throws -> [Identity] {
      let remote = RemoteServers(database: database, storageKey: storageKey, now: now)
      let (added, key) = try await remote.add(
        hostname: try Hostname("chat\(number).\(domain)"), contactEmail: "admin@\(domain)")
      let descriptions = (0..<realms).map { realm in
        RealmDescription(
          realmID: 2 + Int64(realm), uuid: UUID(), ownerSecret: ownerSecret(number),
          host: "chat\(number).\(domain)", name: "Example", orgType: 10,
          dateCreated: Date(timeIntervalSince1970: 1_600_000_000), isDeactivated: false,
          isSystemBotRealm: false, authenticationMethods: "{}")
      }
      let sync = RealmSync(storageKey: storageKey, now: now)
      let id = added.id
      _ = try await database.write { try sync.apply(descriptions, server: id, on: $0) }
      return descriptions.map {
        Identity(
          uuid: added.uuid.uuidString.lowercased(), id: id, key: key, realm: $0.uuid.uuidString.lowercased())
      }
    }
    for number in 0..<2 { servers += try await addServer(number, of: "example.org") }
    let accounts = AccountStore(database: database, storageKey: storageKey, now: now)
    let (remote, key) = try await RemoteServers(database: database, storageKey: storageKey, now: now).add(
      hostname: try Hostname("chat.example.org"), contactEmail: "admin@example.org")
    let realm = UUID()
    _ = try await accounts.put(
      realm: realm, name: "Chat", url: "https://chat.example.org", requiresE2EE: false)
    let keys = NextcloudKeys(database: database, storageKey: storageKey, now: now)
    for user in 0..<Chat.users {
      let added = try await accounts.add(
        .init(email: Chat.email(of: user), apiKey: Chat.apiKey(of: user)), userID: Int64(user + 1),
        realm: realm)
      if hasNextcloudServer, user < Chat.users - 1 { _ = try await keys.key(of: added.user.id) }
    }
    chatIdentity = Identity(
      uuid: remote.uuid.uuidString.lowercased(), id: remote.id, key: key, realm: realm.uuidString.lowercased()
    )
    for number in 0..<Stranger.chatServers {
      strangers += try await addServer(number, of: "example.net")
    }
    template = server.image()
    let links = UpstreamLinks(database: database, storageKey: storageKey, now: now)
    for server in servers + strangers { try await links.enable(server.id) }
    linkedTemplate = server.image()
    for number in 0..<tenantServers {
      tenants.append(try await addServer(number, of: "example.com", realms: 2))
    }
    tenantsTemplate = server.image()
    spareKey = P256.Signing.PrivateKey().pemRepresentation
    secondCredential = APNsCredential(
      name: "second", keyID: "KLMNOPQRST", teamID: "TEAM654321",
      privateKey: P256.Signing.PrivateKey().pemRepresentation, topics: [secondTopic], environment: .production
    )
  }
}
