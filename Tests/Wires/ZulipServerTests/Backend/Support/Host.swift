import Basics
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing
import ZulipServer

/// A host application that calls the backend API, which has a database of its own.
struct Host: Sendable {
  /// The calls that the backend API has made to the rest of the program.
  final class Asked: Sendable {
    private struct State {
      var notifications: [(user: User, payload: JSON.Object)] = []
      var realmChanges = 0
      var refusals: [String: APIError] = [:]
    }

    private let state = Mutex(State())
    var notifications: [(user: User, payload: JSON.Object)] { state.withLock { $0.notifications } }
    var realmChanges: Int { state.withLock { $0.realmChanges } }
    func changeRealms() { state.withLock { $0.realmChanges += 1 } }
    /// The outcomes for parts whose payload has this `content`.
    func refuse(_ content: String, with error: APIError) { state.withLock { $0.refusals[content] = error } }
    func notify(_ user: User, _ payload: JSON.Object) throws -> Result<Void, any Error> {
      state.withLock { state in
        if let refusal = payload["content"]?.string.flatMap({ state.refusals[$0] }) {
          return .failure(refusal)
        }
        state.notifications.append((user, payload))
        return .success(())
      }
    }
  }

  static let token = "the-backend-token"
  /// The outcome of every notification.
  static let sent: JSON = ["devices": 2, "apple_successfully_sent_count": 1]

  let test: TestDatabase
  let database: any Database
  let accounts: AccountStore
  let devices: Devices
  let asked: Asked
  private let client: any TestClientProtocol

  /// Runs a test against a backend.
  static func test(
    token: String? = Self.token, _ test: @escaping @Sendable (Host) async throws -> Void
  ) async throws {
    let testDatabase = try await TestDatabase()
    defer { withExtendedLifetime(testDatabase) {} }
    let database = testDatabase.database
    let storageKey = StorageKey(bytes: [UInt8](repeating: 9, count: 32))
    let now: @Sendable () -> Date = { Date(timeIntervalSince1970: 1_790_000_000) }
    let accounts = AccountStore(database: database, storageKey: storageKey, now: now)
    let devices = Devices(database: database, storageKey: storageKey, localServer: nil, now: now) { _ in }
    let asked = Asked()
    let backend = BackendRoutes(
      accounts: accounts, devices: devices, token: token,
      notify: { user, message in
        let parts = [("zulip", message.zulip), ("legacy", message.legacy), ("nextcloud", message.nextcloud)]
        let payloads = try parts.compactMap { name, field in try field.map { (name, try $0.members()) } }
        return try payloads.map { name, payload in
          (name, try asked.notify(user, payload).map { Self.sent })
        }
      },
      realmsChanged: { asked.changeRealms() })
    let router = Routes()
    router.add(
      EnvelopeLayer(trustedProxies: [ClientAddress.Network("127.0.0.1")].compactMap(\.self)))
    backend.addRoutes(to: router)
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    try await Application(responder: router.buildResponder(), logger: logger).test(.router) { client in
      try await test(
        Host(
          test: testDatabase, database: database, accounts: accounts, devices: devices, asked: asked,
          client: client))
    }
    await database.close()
  }

  /// Calls a path below `/backend/v1/`.
  func call(
    _ method: HTTPRequest.Method, _ path: String, authorization: String? = "Bearer \(Self.token)",
    from address: String? = nil, body: [UInt8] = []
  ) async throws -> Answer {
    var headers: HTTPFields = [:]
    headers[.xForwardedFor] = address
    headers[.authorization] = authorization
    let response = try await client.executeRequest(
      uri: "/backend/v1/\(path)", method: method, headers: headers, body: ByteBuffer(bytes: body))
    return Answer(
      status: Int(response.status.code), headers: response.headers, text: String(buffer: response.body))
  }

  /// Calls a path with a JSON body.
  func call(_ method: HTTPRequest.Method, _ path: String, _ json: JSON) async throws -> Answer {
    try await call(method, path, body: json.bytes)
  }

  /// The status of the answer to a call.
  func status(_ method: HTTPRequest.Method, _ path: String, _ json: JSON? = nil) async throws -> Int {
    try await call(method, path, body: json?.bytes ?? []).status
  }

  /// The path of a new realm.
  func realm() async throws -> String {
    let path = "realms/\(UUID().uuidString.lowercased())"
    let answer = try await call(.put, path, ["name": "Example", "url": "https://chat.example.org"])
    guard answer.status == 201 else { throw CocoaError(.fileWriteUnknown) }
    return path
  }

  /// The path of a new user.
  func user(_ email: String = "iago@example.org", id: Int64 = 10, of realm: String? = nil) async throws
    -> String
  {
    let path = "\(try await given(realm))/users/\(id)"
    let answer = try await call(.put, path, ["email": .string(email)])
    guard answer.status == 201 else { throw CocoaError(.fileWriteUnknown) }
    return path
  }

  private func given(_ realm: String?) async throws -> String {
    if let realm { realm } else { try await self.realm() }
  }

  /// All that is stored.
  func dump() async throws -> [String: [[Value]]] {
    try await database.read { connection in
      var dump: [String: [[Value]]] = [:]
      for table in ["realms", "users", "app_passwords", "devices"] {
        dump[table] = try connection.query(Statement("SELECT * FROM \(table)")).map(\.values)
      }
      return dump
    }
  }

  /// The stored bytes of the whole database.
  func contents() async throws -> Data { try await test.contents() }
}

/// An answer as the host application receives it.
struct Answer {
  let status: Int
  let headers: HTTPFields
  let text: String

  var json: JSON { (try? JSON.parse(text)) ?? .null }
  var message: String { json["msg"]?.string ?? "" }
  /// The names of the members, in order.
  var members: [String] {
    if case .object(let object) = json { object.members.map(\.name.text) } else { [] }
  }
}

extension Trait where Self == Fixture<Host> {
  /// A backend of the test's own.
  static var host: Self { Fixture { try await Host.test($0) } }
}
