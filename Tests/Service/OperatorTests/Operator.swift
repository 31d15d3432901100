import Delivery
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import Providers
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Operator
@testable import Platform

/// The operator's listener over a database and a key folder of its own.
struct Operator: Sendable {
  /// What the test sets.
  final class Stage: Sendable {
    struct State {
      var routes: [Route: PushProviders.RouteState] = [:]
      /// nil: Web Push is switched off.
      var services: PushServices?
      var clockDoubt: ClockDoubt?
      var unopened: [String: Int] = [:]
      var unreadable: ForwardingFaults.Unreadable?
      var earlier: StoreRecord.Earlier?
    }

    private let state = Mutex(State())

    var now: State {
      get { state.withLock { $0 } }
      set { state.withLock { $0 = newValue } }
    }
  }

  let folder: TestFolder
  let keys: KeyFolder
  let database: any Database
  let readiness: Readiness
  let metrics: PrometheusRegistry
  let stage: Stage
  let outbox: Outbox
  let clock: TestClock
  let client: any TestClientProtocol

  static let usual: @Sendable (TestFolder) throws -> Void = { folder in
    try folder.writeBouncerKey()
    try folder.writeFCM("usual", project: "usual")
  }

  static func test(
    token: String? = nil, certificate: ((TestFolder, TestClock) throws -> ServerCertificate)? = nil,
    prepare: (TestFolder) throws -> Void = usual,
    _ test: @escaping @Sendable (Operator) async throws -> Void
  ) async throws {
    try await withKeyFolder { folder in
      try prepare(folder)
      let keys = KeyFolder(directory: folder.path, logger: LogRecorder().logger)
      keys.load()
      let testDatabase = try await TestDatabase()
      defer { withExtendedLifetime(testDatabase) {} }
      let database = testDatabase.database
      let (stage, clock) = (Stage(), TestClock())
      let outbox = Outbox(
        database: database, storageKey: StorageKey(bytes: [UInt8](repeating: 7, count: 32)), maxAge: 86_400,
        now: { clock.now })
      let readiness = Readiness(
        database: database, keyFolder: keys, outbox: outbox, now: { clock.now },
        routeStates: { stage.now.routes }, pushServices: { stage.now.services },
        clockDoubt: { stage.now.clockDoubt }, certificate: try certificate?(folder, clock),
        earlier: { stage.now.earlier }, unopened: { stage.now.unopened },
        unreadableForwarding: { stage.now.unreadable })
      let metrics = PrometheusRegistry()
      let router = Routes()
      router.add(EnvelopeLayer())
      OperatorRoutes(readiness: readiness, metrics: metrics, token: token).add(to: router)
      var logger = Logger(label: "test")
      logger.logLevel = .critical
      try await Application(responder: router.buildResponder(), logger: logger).test(.router) { client in
        try await test(
          Operator(
            folder: folder, keys: keys, database: database, readiness: readiness, metrics: metrics,
            stage: stage, outbox: outbox, clock: clock, client: client))
      }
      await database.close()
    }
  }

  /// Puts notifications into the outbox that arrived the given number of seconds ago.
  func keep(
    _ count: Int = 1, since seconds: TimeInterval, due: TimeInterval = 0, attempts: Int64 = 5,
    route: Route = Route(provider: .apns, credential: "main", target: "org.example.chat")
  ) async throws {
    for _ in 0..<count {
      try await database.write { [now = clock.now] connection in
        try connection.run(
          Statement(
            """
            INSERT INTO outbox_routes (provider, credential, target) VALUES ($1, $2, $3)
            ON CONFLICT (provider, credential, target, owner) DO UPDATE SET target = excluded.target
            """, .text(route.provider.rawValue), .text(route.credential), .text(route.target)))
        try connection.run(
          Statement(
            """
            INSERT INTO outbox (route_id, registration_id, wire, registered_at, push, created_at,
              due_at, expires_at, attempts)
            SELECT id, 1, 1, 0, $1, $2, $3, $4, $5 FROM outbox_routes WHERE credential = $6
            """, .bytes([1]), .integer((now - seconds).milliseconds), .integer((now + due).milliseconds),
            .integer((now + 86_400).milliseconds), .integer(attempts), .text(route.credential)))
      }
    }
    try await outbox.recount()
  }

  func get(
    _ path: String, authorization: String? = nil
  ) async throws -> (status: Int, headers: HTTPFields, text: String) {
    var headers: HTTPFields = [:]
    headers[.authorization] = authorization
    return try await client.execute(uri: path, method: .get, headers: headers) { response in
      (response.status.code, response.headers, String(buffer: response.body))
    }
  }

  /// `/readyz`: the answer's status code and document.
  func ready() async throws -> (status: Int, document: JSON) {
    let answer = try await get("/readyz")
    return (answer.status, try JSON.parse(answer.text))
  }

  /// What `/readyz` says of one part.
  func check(_ name: String) async throws -> JSON? { try await ready().document["checks"]?[name] }
}

extension Trait where Self == Fixture<Operator> {
  /// An operator's listener of the test's own.
  static func listener(
    token: String? = nil,
    prepare: @escaping @Sendable (TestFolder) throws -> Void = Operator.usual
  ) -> Self {
    Fixture { try await Operator.test(token: token, prepare: prepare, $0) }
  }
}
