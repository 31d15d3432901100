import Basics
import Delivery
import Foundation
import HTTPClient
import HTTPTypes
import NIOCore
import Providers
import SQL
import TestStore
import TestSupport
import Testing
import ZulipBouncer

@testable import NextcloudProxy
@testable import NextcloudServer
@testable import Registrations
@testable import Sealing
@testable import WebPushGateway
@testable import ZulipServer

/// A store with two rows in every table that holds sealed values, as the program itself writes them.
struct SealedRows {
  let store: Store
  let accounts: AccountStore
  let devices: Devices
  let nextcloud: NextcloudDevices
  let notifications: NextcloudNotifications
  let keys: NextcloudKeys
  let subscriptions: NextcloudSubscriptions
  let gateway: GatewaySubscriptions
  let bodies: GatewayMessages
  let server: RemoteServer
  let realm: RemoteRealm
  private(set) var users: [User] = []
  private var bodyIDs: [GatewayID] = []

  var links: UpstreamLinks {
    UpstreamLinks(database: store.database, storageKey: store.storageKey) { [clock = store.clock] in clock.now
    }
  }

  static let names = ["one", "two"]
  static let numbers = try? [1, 2].map { try #require(LegacyUser(id: $0, uuid: nil)) }

  init() async throws {
    store = try await Store()
    let now: @Sendable () -> Date = { [clock = store.clock] in clock.now }
    let (database, key) = (store.database, store.storageKey)
    accounts = AccountStore(database: database, storageKey: key, now: now)
    devices = Devices(database: database, storageKey: key, localServer: nil, now: now) { _ in }
    nextcloud = NextcloudDevices(database: database, storageKey: key, now: now)
    notifications = NextcloudNotifications(database: database, storageKey: key, now: now)
    keys = NextcloudKeys(database: database, storageKey: key, now: now)
    subscriptions = NextcloudSubscriptions(database: database, storageKey: key, now: now)
    gateway = GatewaySubscriptions(database: database, storageKey: key, now: now)
    bodies = GatewayMessages(database: database, storageKey: key, now: now)
    server = try await store.server().server
    realm = try await store.realm(of: server)
    for (index, name) in Self.names.enumerated() { try await fill(index, name) }
  }

  private mutating func fill(_ index: Int, _ name: String) async throws {
    let token = try PushToken("token \(name)", kind: .fcm)
    try await store.registrations.register(token, iosAppID: nil, realm: realm.id, bouncerKey: "key")
    for user in [LegacyUser(id: Int64(index + 1), uuid: nil), LegacyUser(id: nil, uuid: Self.uuid(index))] {
      try await store.registrations.register(
        try PushToken("old token \(name)", kind: .fcm), iosAppID: nil, for: try #require(user),
        server: server.id, realm: nil)
    }
    let linked = try await store.server("\(name).example.net").server.id
    try await links.enable(linked)
    try await links.keep("key \(name)", of: linked)
    try await links.prepare("next key \(name)", of: linked, within: 0)
    try await links.keep(realms: "[\"\(name)\"]", of: linked)
    let leaving = try #require(LegacyUser(id: Int64(index + 1), uuid: nil))
    try await links.unregister(token, of: leaving, server: linked, form: Array("form \(name)".utf8))
    try await nextcloud.register(
      .init(
        identifier: Self.identifier(index), userKey: [1, 2, 3], token: "token \(name)",
        tokenHash: [UInt8](repeating: UInt8(index), count: 64),
        destination: .init(kind: .fcm, app: "Talk", target: nil)))
    let chat = try await accounts.put(
      realm: Self.uuid(index), name: name, url: "https://\(name).example.org", requiresE2EE: nil
    ).realm
    let user = try await accounts.put(
      .init(email: "\(name)@example.org"), userID: Int64(index), realm: chat.uuid
    ).user
    users.append(user)
    let device = try await devices.add(user: user.id)
    _ = try await devices.register(
      .init(
        key: .init(id: 1, key: .generate()),
        token: .init(kind: .fcm, id: token.id, bouncerPublicKey: "public", sealed: "sealed")),
      device: device, user: user.id)
    try await devices.legacyTokens.add(LegacyToken(token: token, iosAppID: nil), user: user)
    let gone = try PushToken("gone \(name)", kind: .fcm)
    try await devices.legacyTokens.add(LegacyToken(token: gone, iosAppID: nil), user: user)
    #expect(try await devices.legacyTokens.remove(gone, user: user))
    try await notifications.keep(
      NextcloudNotification(nid: Int64(index), app: "talk", subject: name, type: "chat", id: name),
      user: user.id)
    _ = try await keys.key(of: user.id)
    try await subscribe(user, index)
    try await keepBody(index, name)
    try await insertVAPIDKey(index)
    let push = store.storageKey.seal("push \(name)", at: Outbox.place(of: Int64(index)))
    _ = try await store.database.execute(
      Statement(
        "INSERT INTO outbox_routes (id, provider, credential, target) VALUES ($1, 'fcm', 'default', $2)",
        .integer(Int64(index + 1)), .text(name)))
    _ = try await store.database.execute(
      Statement(
        """
        INSERT INTO outbox
          (route_id, registration_id, registered_at, push, created_at, due_at, expires_at, attempts,
          wire)
        VALUES ($1, $2, 0, $3, 0, 0, 0, 1, 1)
        """, .integer(Int64(index + 1)), .integer(Int64(index)), .bytes(push)))
  }

  private func subscribe(_ user: User, _ index: Int) async throws {
    // Any point and any secret.
    let target = try WebPushSubscription(
      endpoint: "https://push.example.org/\(index)", p256dh: VAPIDKey().publicKey,
      auth: String(repeating: "A", count: 22))
    let holder = NextcloudSubscription.Holder(user: user.id, appPassword: nil)
    let registered = try await subscriptions.put(target, AppTypes("all"), of: holder)
    guard case .new(_, let token) = registered else { return }
    _ = try await subscriptions.activate(token, of: holder)
  }

  private mutating func keepBody(_ index: Int, _ name: String) async throws {
    let id = try Self.gatewayID(index)
    let json = #"{"token_kind":"fcm","token":"gateway-token-of-app-\#(name)"}"#
    _ = try await gateway.put(id, SubscriptionRequest(json.utf8) { _, _ in [] }, of: .nobody) {}
    let message = try GatewayMessage(
      [HTTPField.Name("TTL")!: "86400", .contentEncoding: "aes128gcm"],
      ByteBuffer(repeating: UInt8(index), count: 103))
    try await bodies.keep(
      message, topic: nil, for: try #require(try await gateway.find(id)), of: .nobody, from: 1)
    bodyIDs.append(message.id)
  }

  private static func gatewayID(_ index: Int) throws -> GatewayID {
    try #require(GatewayID([UInt8](repeating: UInt8(index), count: 16)))
  }

  /// There is but the first, as the program writes it.
  private func insertVAPIDKey(_ index: Int) async throws {
    let id = Value.integer(Int64(index + 1))
    let sealed = store.storageKey.seal(
      [UInt8](VAPIDKey().rawRepresentation), at: SealedColumn.vapidKey.place(id))
    _ = try await store.database.execute(
      Statement(
        "INSERT INTO vapid_keys (id, private_key, created_at) VALUES ($1, $2, 0)", id, .bytes(sealed)))
  }

  static func uuid(_ index: Int) -> UUID {
    UUID(uuid: (0, 0, 0, 0, 0, 0, 64, 0, 128, 0, 0, 0, 0, 0, 0, UInt8(index)))
  }

  static func identifier(_ index: Int) -> [UInt8] { [UInt8](repeating: UInt8(index), count: 64) }

  /// The values of a column with their places, as the rows have them.
  func values(of column: SealedColumn) async throws -> [(value: [UInt8], place: SealedPlace)] {
    let (table, name) = (column.table, column.name)
    let identity = column.identity.joined(separator: ", ")
    return try await store.database.read { connection in
      try connection.query(
        Statement("SELECT \(name) AS sealed, \(identity) FROM \(table) ORDER BY \(identity)")
      ).map {
        (try $0.bytes("sealed"), column.place(Array($0.values.dropFirst())))
      }
    }
  }

  /// Puts other values in the place of those of a column.
  func replace(_ column: SealedColumn, _ values: [(old: [UInt8], new: [UInt8])]) async throws {
    // None may be taken for another one on the way.
    let mark = Array("new ".utf8)
    try await store.database.write { connection in
      for (old, new) in values {
        let changed = try connection.run(
          Statement(
            "UPDATE \(column.table) SET \(column.name) = $2 WHERE \(column.name) = $1", .bytes(old),
            .bytes(mark + new)))
        #expect(changed == 1)
      }
      try connection.run(
        Statement(
          """
          UPDATE \(column.table) SET \(column.name) = substr(\(column.name), 5)
          WHERE substr(\(column.name), 1, 4) = $1
          """, .bytes(mark)))
    }
  }

  /// Exchanges the values of a column between its rows: the first and the last, and so on.
  func swap(_ column: SealedColumn) async throws {
    let values = try await values(of: column).map(\.value)
    try await replace(column, Array(zip(values, values.reversed())).filter { $0.0 != $0.1 })
  }

  /// What can be read of all rows, in words.
  func readable() async throws -> Set<String> {
    var readable: Set<String> = []
    let ids = try Self.names.map { try PushToken("token \($0)", kind: .fcm).id }
    for found in try await store.registrations.lookup(realm: realm.id, tokenIDs: ids).found.values {
      readable.insert("e2ee \(found.token.text)")
    }
    for (index, user) in users.enumerated() {
      for name in [LegacyUser(id: Int64(index + 1), uuid: nil), LegacyUser(id: nil, uuid: Self.uuid(index))] {
        let recipients = try await store.registrations.recipients(
          of: try #require(name), server: server.id, realm: nil)
        readable.formUnion(
          recipients.registrations.map { "legacy \(name?.id == nil) \(index) \($0.token.text)" })
      }
      for device in try await nextcloud.lookup([Self.identifier(index)]) where device.token != nil {
        readable.insert("nextcloud \(index) \(device.token ?? "")")
      }
      readable.formUnion(
        try await devices.legacyTokens.tokens(of: user.id).map { "token \(index) \($0.token.text)" })
      for device in try await devices.snapshot(user: user.id).devices where device.pushKey != nil {
        readable.insert("device \(index)")
      }
      for entry in try await notifications.newest(9, user: user.id) {
        readable.insert("notification \(index) \(entry.notification)")
      }
      for subscription in try await subscriptions.active(of: user.id) {
        readable.insert("subscription \(index) \(subscription.target.endpoint.url)")
      }
      if let key = try? await keys.key(of: user.id) {
        let publicKey = try await keys.publicKey(of: user.id, making: false)
        readable.insert("key \(index) \(publicKey == key.publicKey.pem)")
      }
      if let token = try await gateway.find(Self.gatewayID(index))?.token {
        readable.insert("gateway \(index) \(token.text)")
      }
      if let found = try await bodies.find(bodyIDs[index]) {
        readable.insert("body \(index) \(found.bytes[0])")
      }
      let realm = try #require(try await accounts.find(realm: Self.uuid(index)))
      if (try? await accounts.ownerSecret(of: realm)) != nil { readable.insert("secret \(index)") }
    }
    let vapid = VAPIDKeys(database: store.database, storageKey: store.storageKey) { Date() }
    if (try? await vapid.find()) != nil { readable.insert("vapid") }
    for link in try await links.all() {
      for value in [link.key, link.nextKey, link.realms] { if let value { readable.insert(value) } }
    }
    store.clock.advance(3600)
    for job in try await links.leaseUnregistrations(9, besides: [], for: 60) {
      if let form = job.form { readable.insert(String(decoding: form, as: UTF8.self)) }
    }
    for job in try await devices.legacyTokens.leaseJobs(limit: 9, for: 60) {
      readable.insert("job \(job.token?.text ?? "all")")
    }
    return readable
  }
}
