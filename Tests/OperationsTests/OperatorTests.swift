import Foundation
import Hummingbird
import HummingbirdTesting
import Logging
import ProviderSimulator
import Providers
import SQL
import SQLiteMigrations
import Synchronization
import Testing
import Wire

@testable import Operations

@Suite struct OperatorTests {
  private final class Routes: Sendable {
    let states = Mutex<[Route: PushProviders.RouteState]>([:])
  }

  /// A service's operator's side, over a real database and a real folder.
  private final class Service: Sendable {
    let folder: Folder
    let database: any Database
    let keys: KeyFolder
    let readiness: Readiness
    let routes = Routes()
    private let token: String?

    init(token: String? = nil) async throws {
      self.token = token
      folder = try Folder()
      database = try await openDatabase(url: DatabaseURL(sqlitePath: "\(folder.path)/test.sqlite"))
      _ = try BouncerKeyFiles(directory: folder.path).generate()
      keys = KeyFolder(
        directory: folder.path, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
      keys.load()
      readiness = Readiness(
        database: database, keyFolder: keys, routeStates: { [routes] in routes.states.withLock { $0 } })
    }

    func get(_ path: String, authorization: String? = nil) async throws -> (
      status: HTTPResponse.Status, body: String
    ) {
      let router = Router(context: WireContext.self)
      router.add(middleware: RequestObserver(level: .debug))
      router.add(middleware: EnvelopeMiddleware())
      OperatorRoutes(readiness: readiness, metrics: PrometheusRegistry(), token: token).add(to: router)
      return try await Application(router: router).test(.router) { client in
        let response = try await client.execute(
          uri: path, method: .get, headers: authorization.map { [.authorization: $0] } ?? [:])
        #expect(response.headers[.xRequestID]?.isEmpty == false)
        return (response.status, String(buffer: response.body))
      }
    }

    func check(_ name: String) async throws -> JSON? {
      try JSON.parse(Data(try await get("/readyz").body.utf8))["checks"]?[name]
    }
  }

  @Test func `A process that answers is alive`() async throws {
    let answer = try await Service().get("/healthz")
    #expect(answer.status == .ok)
    #expect(answer.body == #"{"status":"ok"}"# + "\n")
  }

  @Test func `A service with a database and a key is ready`() async throws {
    let answer = try await Service().get("/readyz")
    #expect(answer.status == .ok)
    #expect(
      answer.body
        == #"{"status":"ready","checks":{"database":{"status":"ok"},"keys":{"status":"ok"},"outbox":{"status":"ok","depth":0}}}"#
        + "\n")
  }

  @Test func `Without its database it is not`() async throws {
    let service = try await Service()
    await service.database.close()
    let answer = try await service.get("/readyz")
    #expect(answer.status == .serviceUnavailable)
    #expect(answer.body.contains(#""status":"unavailable""#))
    #expect(try await service.check("database") == ["status": "failing", "reason": "closed"])
  }

  @Test func `Without a bouncer key it is not, and says how to make one`() async throws {
    let service = try await Service()
    try service.folder.remove("bouncer")
    service.keys.reload()
    #expect(try await service.get("/readyz").status == .serviceUnavailable)
    #expect(
      try await service.check("keys")?["reason"]?.string?.contains("push-bouncer keys generate") == true)
  }

  @Test func `While it drains it is not`() async throws {
    let service = try await Service()
    service.readiness.drain()
    #expect(try await service.get("/readyz").status == .serviceUnavailable)
    #expect(try await service.get("/healthz").status == .ok)
  }

  @Test func `A broken key file degrades it and is named`() async throws {
    let service = try await Service()
    try service.folder.write("{", to: "apns/broken.json")
    service.keys.reload()
    let answer = try await service.get("/readyz")
    #expect(answer.status == .ok)
    #expect(answer.body.hasPrefix(#"{"status":"degraded""#))
    let keys = try await service.check("keys")
    #expect(keys?["status"] == "failing")
    let problems = try #require(keys?["problems"])
    #expect(problems.text.contains(#""file":"apns/broken.json""#))
  }

  @Test func `Each credential has a check: unknown, ok or failing since when and why`() async throws {
    let service = try await Service()
    let simulator = try await ProviderSimulator.start()
    try simulator.writeKeys(to: URL(filePath: service.folder.path))
    await simulator.stop()
    service.keys.reload()
    #expect(try await service.check("apns:simulator") == ["status": "unknown"])
    #expect(try await service.check("fcm:default") == ["status": "unknown"])

    let topics = ["org.example.chat", "org.example.other"].map {
      Route(provider: .apns, credential: "simulator", target: $0)
    }
    service.routes.states.withLock { $0 = [topics[0]: .ok, topics[1]: .unknown] }
    #expect(try await service.check("apns:simulator") == ["status": "ok"])
    #expect(try await service.get("/readyz").body.hasPrefix(#"{"status":"ready""#))

    service.routes.states.withLock {
      $0[topics[1]] = .failing(.topicDisallowed, since: Date(timeIntervalSince1970: 1_790_000_000))
    }
    #expect(
      try await service.check("apns:simulator") == [
        "status": "failing", "reason": "TopicDisallowed", "route": "org.example.other",
        "since": "2026-09-21T14:13:20Z",
      ])
    #expect(try await service.check("fcm:default") == ["status": "unknown"])
    let answer = try await service.get("/readyz")
    #expect(answer.status == .ok)
    #expect(answer.body.hasPrefix(#"{"status":"degraded""#))
  }

  @Test func `Metrics, and only they, want the token`() async throws {
    let service = try await Service(token: "s3cret")
    #expect(try await service.get("/metrics").status == .unauthorized)
    for wrong in ["Bearer s3cre", "Bearer s3crets", "Bearer ", "s3cret", "Basic s3cret"] {
      #expect(try await service.get("/metrics", authorization: wrong).status == .unauthorized)
    }
    #expect(try await service.get("/metrics", authorization: "Bearer s3cret").status == .ok)
    #expect(try await service.get("/metrics", authorization: "bearer s3cret").status == .ok)
    #expect(try await service.get("/readyz").status == .ok)
    #expect(try await Service().get("/metrics").status == .ok)
  }

  @Test func `Nothing else is there`() async throws {
    let answer = try await Service().get("/nothing")
    #expect(answer.status == .notFound)
    #expect(answer.body == #"{"result":"error","msg":"Not found","code":"BAD_REQUEST"}"# + "\n")
  }
}
