import CoreMetrics
import Dispatch
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Providers
import SQL
import Synchronization
import TestSupport
import Testing

@testable import Delivery
@testable import Operator
@testable import Platform
@testable import Registrations

/// `/healthz`, `/readyz` and `/metrics`.
@Suite struct OperatorRoutesTests {
  private var service: Operator { Fixture.current }

  private static let withAppleKey: @Sendable (TestFolder) throws -> Void = { folder in
    try folder.writeBouncerKey()
    try folder.writeAPNs("main")
    try folder.writeFCM("work", project: "demo")
  }

  // MARK: /readyz

  @Test(.listener()) func `A service that works is ready, and one that shuts down is not`() async throws {
    var (status, document) = try await service.ready()
    #expect(status == 200 && document["status"] == "ready")
    for check in ["database", "keys", "outbox", "clock"] {
      #expect(document["checks"]?[check]?["status"] == "ok", "\(check)")
    }
    #expect(document["checks"]?["service"] == nil)
    service.readiness.drain()
    (status, document) = try await service.ready()
    #expect(status == 503 && document["status"] == "unavailable")
    #expect(document["checks"]?["service"]?["status"] == "draining")
    #expect(try await service.get("/healthz").status == 200)
  }

  @Test(.listener(prepare: { try $0.writeBouncerKey() }))
  func `Without any way to deliver it takes notifications, and says so`() async throws {
    let (status, document) = try await service.ready()
    #expect(status == 200 && document["status"] == "degraded")
    let check = document["checks"]?["providers"]
    #expect(check?["status"] == "failing" && check?["advice"]?.string != nil)
    #expect(check?["meaning"]?.string?.hasSuffix("nothing can be delivered.") == true)
    service.stage.now.routes = [Route(provider: .upstream, credential: "push.example.org", target: ""): .ok]
    #expect(try await service.ready().document["checks"]?["providers"] == nil)
    service.stage.now.routes = [:]
    try service.folder.writeFCM("work", project: "demo")
    service.keys.reload()
    #expect(try await service.ready().document["status"] == "ready")
  }

  @Test(.listener()) func `A clock that is doubted is shown`() async throws {
    service.stage.now.clockDoubt = ClockDoubt(
      reason: .jumped(by: -7260), since: Date(timeIntervalSince1970: 1_790_000_000))
    let (status, document) = try await service.ready()
    #expect(status == 200 && document["status"] == "degraded")
    #expect(
      document["checks"]?["clock"] == [
        "status": "failing", "since": "2026-09-21T14:13:20Z",
        "meaning": .string("The clock is doubted: it was put back by 2 h. \(ClockDoubt.meaning)"),
        "advice": .string(ClockDoubt.advice),
      ])
    #expect(ClockDoubt.advice.contains("push-bouncer clock trust"))
  }

  @Test(.listener()) func `Another database than before is shown`() async throws {
    #expect(try await service.ready().document["checks"]?["store"] == nil)
    service.stage.now.earlier = .init(id: [1], since: Date(timeIntervalSince1970: 1_790_000_000))
    let (status, document) = try await service.ready()
    #expect(status == 200 && document["status"] == "degraded")
    let check = document["checks"]?["store"]
    #expect(check?["status"] == "failing" && check?["since"] == "2026-09-21T14:13:20Z", "\(document)")
    #expect(check?["meaning"]?.string?.hasPrefix("Another database was served before") == true)
    #expect(check?["advice"]?.string?.contains("remove store.json") == true)
  }

  @Test(.listener()) func `Values that do not open are shown with their columns`() async throws {
    #expect(try await service.ready().document["checks"]?["storage.key"] == nil)
    service.stage.now.unopened = ["registrations.token": 3]
    let (status, document) = try await service.ready()
    #expect(status == 200 && document["status"] == "degraded")
    let check = document["checks"]?["storage.key"]
    #expect(check?["status"] == "failing" && check?["reason"] == nil, "\(document)")
    #expect(check?["meaning"]?.string?.hasPrefix("Values of registrations.token do not open") == true)
    #expect(check?["advice"]?.string?.contains("storage.key of the same backup") == true)
  }

  @Test(.listener(prepare: Self.withAppleKey)) func `A route is unknown then ok then failing`() async throws {
    func set(_ target: String, _ state: PushProviders.RouteState) {
      service.stage.now.routes[Route(provider: .apns, credential: "main", target: target)] = state
    }
    #expect(try await service.ready().document["status"] == "ready")
    for name in ["apns:main", "fcm:work"] {
      #expect(try await service.check(name) == ["status": "unknown"])
    }
    set("org.example.chat", .ok)
    #expect(try await service.check("apns:main") == ["status": "ok"])

    set(
      "org.example.chat.voip", .failing(.topicDisallowed, since: Date(timeIntervalSince1970: 1_790_000_000)))
    let (status, document) = try await service.ready()
    #expect(status == 200 && document["status"] == "degraded")
    #expect(
      document["checks"]?["apns:main"] == [
        "status": "failing", "target": "org.example.chat.voip", "since": "2026-09-21T14:13:20Z",
        "reason": "TopicDisallowed", "meaning": .string(Reason.topicDisallowed.explanation.meaning),
        "advice": .string(Reason.topicDisallowed.explanation.advice),
      ])
    #expect(document["checks"]?["fcm:work"]?["status"] == "unknown")
  }

  @Test(.listener()) func `A broken key file degrades`() async throws {
    try service.folder.write("apns/main.json", "hunter2")
    service.keys.reload()
    let (status, document) = try await service.ready()
    #expect(status == 200 && document["status"] == "degraded")
    #expect(document["checks"]?["keys"]?["status"] == "failing")
    #expect(document.text.contains("apns/main.json") && !document.text.contains("hunter2"))
  }

  @Test(.listener(prepare: { _ in })) func `Without a bouncer key nothing can be taken`() async throws {
    let (status, document) = try await service.ready()
    #expect(status == 503 && document["status"] == "unavailable")
    let check = document["checks"]?["keys"]
    #expect(check?["meaning"] == "There is no bouncer key: phones cannot register.")
    #expect(check?["advice"]?.string?.contains("push-bouncer keys generate") == true)
    let keys = service.keys.current
    #expect(keys.shortages(isDelivering: true, hasWebPush: false) == [.bouncerKey, .credential])
    #expect(keys.shortages(isDelivering: true, hasWebPush: true) == [.bouncerKey, .storeCredential])
    #expect(keys.shortages(isDelivering: false, hasWebPush: false) == [.bouncerKey])
    // Who delivers by Web Push alone is not warned.
    #expect(KeyFolder.Shortage.credential.isFault && !KeyFolder.Shortage.storeCredential.isFault)
    #expect(try await service.get("/healthz").status == 200)
  }

  @Test(.listener()) func `Without a database nothing can be taken`() async throws {
    await service.database.close()
    let (status, document) = try await service.ready()
    #expect(status == 503 && document["status"] == "unavailable")
    #expect(document["checks"]?["database"]?["status"] == "failing")
    #expect(try await service.get("/healthz").text == #"{"status":"ok","held_address":null}"# + "\n")
  }

  @Test(.listener()) func `A database that hangs is told of while it does`() async throws {
    let (isHeld, release) = (AsyncStream<Void>.makeStream(), DispatchSemaphore(value: 0))
    let holder = Task {
      try await service.database.write { connection in
        try connection.run(
          Statement("INSERT INTO metadata (name, value) VALUES ('write_check', $1)", .bytes([1])))
        isHeld.continuation.finish()
        release.wait()
      }
    }
    for await _ in isHeld.stream {}
    do {
      defer { release.signal() }
      // Who asks again while the first question hangs does not wait for it either.
      for _ in 0..<3 {
        let (status, document) = try await service.ready()
        #expect(status == 503 && document["checks"]?["database"]?["reason"] == "timeout")
      }
    }
    try await holder.value
    try await eventually("the database answers") { try await service.ready().status == 200 }
  }

  // MARK: The outbox

  @Test(.listener(prepare: Self.withAppleKey))
  func `What waits is shown with its age, and degrades where it has waited for long`() async throws {
    #expect(try await service.check("outbox") == ["status": "ok", "waiting": 0])
    try await service.keep(2, since: 300)
    #expect(try await service.check("outbox") == ["status": "ok", "waiting": 2, "oldest_seconds": 300])
    service.clock.advance(1)
    let document = try await service.ready().document
    #expect(document["status"] == "degraded")
    let check = document["checks"]?["outbox"]
    #expect(check?["status"] == "degraded" && check?["oldest_seconds"] == 301)
    #expect(check?["meaning"] == "A notification has waited for 5 min.")
    #expect(check?["advice"]?.string?.hasSuffix("delivery.max_age.") == true)
    #expect(document["checks"]?["apns:main"]?["waiting"] == 2)
  }

  @Test(.listener()) func `What only keeps to a pace may wait, but not beyond its time, and hides nothing`()
    async throws
  {
    try await service.keep(20, since: 3000, due: 600, attempts: 1)
    var check = try await service.check("outbox")
    #expect(check?["status"] == "ok" && check?["oldest_seconds"] == 3000)
    #expect(check?["meaning"]?.string?.contains("bouncer.notifications_per_server") == true)
    service.clock.advance(659)
    #expect(try await service.ready().document["status"] == "ready")
    service.clock.advance(2)
    #expect(try await service.ready().document["status"] == "degraded")
    service.clock.advance(-661)
    try await service.keep(since: 400, due: 100, attempts: 4)
    check = try await service.check("outbox")
    #expect(check?["status"] == "degraded" && check?["meaning"] == "A notification has waited for 6 min.")
  }

  @Test(.listener())
  func `It does not degrade where a device has as many waiting as it may, whatever they wait for`()
    async throws
  {
    let delivery = RegisteredPush(
      push: .fcm(FCMMessage(token: "token", data: ["name": "n"])),
      registration: .init(.nextcloud, id: 1, registeredAt: service.clock.now), owner: .address(1))
    let route = Route(provider: .fcm, credential: "main", target: "demo")
    let dueAt = service.clock.now + 60
    try await service.outbox.keep((0..<101).map { _ in (delivery, route, dueAt) })
    let check = try await service.check("outbox")
    #expect(check?["status"] == "ok" && check?["waiting"] == 100)
  }

  // MARK: /metrics

  @Test(.listener()) func `Metrics are text for prometheus, without those that cannot be read`() async throws
  {
    struct Unreadable: Error {}
    let gate = AsyncStream<Void>.makeStream()
    let asked = Mutex(0)
    service.metrics.gauges("first") { [.init(1)] }
    service.metrics.gauges("slow") {
      asked.withLock { $0 += 1 }
      for await _ in gate.stream {}
      return [.init(2)]
    }
    service.metrics.gauges("broken") { throw Unreadable() }
    service.metrics.makeCounter(label: "count", dimensions: []).increment(by: 3)
    let others =
      "# HELP count count\n# TYPE count counter\ncount 3\n# HELP first first\n# TYPE first gauge\nfirst 1\n"
    for _ in 0..<3 {
      let answer = try await service.get("/metrics")
      #expect(answer.status == 200 && answer.text == others)
      #expect(answer.headers[.contentType] == "text/plain; version=0.0.4; charset=utf-8")
    }
    #expect(asked.withLock { $0 } == 1)
    gate.continuation.finish()
    try await eventually("slow") { try await service.get("/metrics").text.contains("\nslow 2\n") }
  }

  // MARK: Who may see what

  @Test(
    .listener(token: "hunter2"),
    arguments: [
      (nil, 401), ("", 401), ("hunter2", 401), ("Basic hunter2", 401), ("Bearer", 401), ("Bearer ", 401),
      ("Bearer hunter", 401), ("Bearer hunter22", 401), ("Bearer hunter2", 200), ("bearer hunter2", 200),
    ])
  func `With a token set metrics are for who shows it, and health for everybody`(
    _ authorization: String?, _ status: Int
  ) async throws {
    service.metrics.gauges("first") { [.init(1)] }
    let answer = try await service.get("/metrics", authorization: authorization)
    #expect(answer.status == status && !answer.text.contains("hunter2"))
    #expect(answer.headers[.wwwAuthenticate] == (status == 401 ? "Bearer" : nil))
    #expect(answer.text.contains("TYPE") == (status == 200))
    for path in ["/healthz", "/readyz"] { #expect(try await service.get(path).status == 200) }
  }

  @Test(.listener(token: "hunter2", prepare: Self.withAppleKey))
  func `With a token set the state is for everybody and what it is made of for who shows it`()
    async throws
  {
    #expect(try await service.ready().document == ["status": "ready"])
    let wrong = try await service.get("/readyz", authorization: "Bearer hunter")
    #expect(wrong.status == 401 && !wrong.text.contains("main"))
    let right = try await service.get("/readyz", authorization: "Bearer hunter2")
    #expect(try JSON.parse(right.text)["checks"]?["apns:main"]?["status"] == "unknown")
    service.readiness.drain()
    let (status, document) = try await service.ready()
    #expect(status == 503 && document == ["status": "unavailable"])
  }

  @Test(.listener()) func `Every answer has an ID`() async throws {
    for path in ["/healthz", "/readyz", "/metrics", "/nothing"] {
      let answer = try await service.get(path)
      #expect(answer.headers[.xRequestID]?.isEmpty == false)
    }
  }
}
