import CoreMetrics
import Dispatch
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import Providers
import SQL
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Operations

@Suite struct OperatorRoutesTests {
  @Test func `A clock that is doubted is shown`() async throws {
    try await Operator.test { service in
      #expect(try await service.ready().document["checks"]?["clock"] == ["status": "ok"])
      service.doubt.now = ClockDoubt(
        reason: .jumped(by: -7260), since: Date(timeIntervalSince1970: 1_790_000_000))
      let (status, document) = try await service.ready()
      #expect(status == 200 && document["status"] == "degraded")
      #expect(
        document["checks"]?["clock"]
          == ["status": "failing", "reason": "it was put back by 2 h", "since": "2026-09-21T14:13:20Z"])
    }
  }

  @Test func `A service that works is ready`() async throws {
    try await Operator.test { service in
      let (status, document) = try await service.ready()
      #expect(status == 200)
      #expect(document["status"]?.string == "ready")
      for check in ["database", "keys", "outbox"] {
        #expect(document["checks"]?[check]?["status"]?.string == "ok")
      }
      #expect(document["checks"]?["service"] == nil)
    }
  }

  @Test func `A route is unknown then ok then failing`() async throws {
    try await Operator.test(
      prepare: { folder in
        try folder.writeBouncerKey()
        try folder.writeAPNs("main")
        try folder.writeFCM("work", project: "demo")
      }
    ) { service in
      var (status, document) = try await service.ready()
      #expect(document["status"]?.string == "ready")
      #expect(document["checks"]?["apns:main"]?["status"]?.string == "unknown")
      #expect(document["checks"]?["fcm:work"]?["status"]?.string == "unknown")

      service.routes.set(.apns, "main", "org.example.chat", .ok)
      document = try await service.ready().document
      #expect(document["checks"]?["apns:main"]?["status"]?.string == "ok")

      let since = Date(timeIntervalSince1970: 1_790_000_000)
      service.routes.set(.apns, "main", "org.example.chat.voip", .failing(.badTopic, since: since))
      (status, document) = try await service.ready()
      #expect(status == 200)
      #expect(document["status"]?.string == "degraded")
      let check = document["checks"]?["apns:main"]
      #expect(check?["status"]?.string == "failing")
      #expect(check?["reason"]?.string == "BadTopic")
      #expect(check?["route"]?.string == "org.example.chat.voip")
      #expect(check?["since"]?.string == since.formatted(.iso8601))
      #expect(check?["meaning"]?.string == "Apple does not let this key push to this app.")
      #expect(check?["advice"]?.string?.contains("bundle id") == true)
      #expect(document["checks"]?["fcm:work"]?["status"]?.string == "unknown")
    }
  }

  @Test func `A broken key file degrades`() async throws {
    try await Operator.test { service in
      try service.folder.write("apns/main.json", "hunter2")
      service.keys.reload()
      let (status, document) = try await service.ready()
      #expect(status == 200)
      #expect(document["status"]?.string == "degraded")
      #expect(document["checks"]?["keys"]?["status"]?.string == "failing")
      #expect(document.text.contains("apns/main.json"))
      #expect(!document.text.contains("hunter2"))
    }
  }

  @Test func `Without a bouncer key nothing can be taken`() async throws {
    try await Operator.test(prepare: { _ in }) { service in
      let (status, document) = try await service.ready()
      #expect(status == 503)
      #expect(document["status"]?.string == "unavailable")
      let check = document["checks"]?["keys"]
      #expect(check?["reason"] == "there is no bouncer key: phones cannot register")
      #expect(check?["advice"]?.string?.contains("push-bouncer keys generate") == true)
      let keys = service.keys.current
      #expect(keys.shortages(isDelivering: true, hasWebPush: false) == [.bouncerKey, .credential])
      #expect(keys.shortages(isDelivering: true, hasWebPush: true) == [.bouncerKey, .storeCredential])
      #expect(keys.shortages(isDelivering: false, hasWebPush: false) == [.bouncerKey])
      // Who delivers by Web Push alone is not warned.
      #expect(KeyFolder.Shortage.credential.isFault && !KeyFolder.Shortage.storeCredential.isFault)
      #expect(try await service.get("/healthz").status == 200)
    }
  }

  @Test func `Without a database nothing can be taken`() async throws {
    try await Operator.test { service in
      await service.database.close()
      let (status, document) = try await service.ready()
      #expect(status == 503)
      #expect(document["status"]?.string == "unavailable")
      #expect(document["checks"]?["database"]?["status"]?.string == "failing")
      #expect(try await service.get("/healthz").text == #"{"status":"ok","held":null}"# + "\n")
    }
  }

  @Test func `A database that hangs is told of soon`() async throws {
    try await Operator.test { service in
      let (isHeld, release) = (AsyncStream<Void>.makeStream(), DispatchSemaphore(value: 0))
      let holder = Task {
        try await service.database.write { connection in
          try connection.run(
            Statement("INSERT INTO metadata (name, value) VALUES ('write_check', $1)", .bytes([1])))
          isHeld.continuation.finish()
          #expect(release.wait(timeout: .now() + 60) == .success)
        }
      }
      for await _ in isHeld.stream {}
      let start = ContinuousClock.now
      // Who asks again while the first question hangs waits no longer.
      for _ in 0..<3 {
        let (status, document) = try await service.ready()
        #expect(status == 503)
        #expect(document["checks"]?["database"]?["reason"]?.string == "timeout")
      }
      #expect(ContinuousClock.now - start < .seconds(20))
      release.signal()
      try await holder.value
      let end = ContinuousClock.now + .seconds(30)
      while try await service.ready().status != 200, ContinuousClock.now < end {}
      #expect(try await service.ready().status == 200)
    }
  }

  @Test func `Metrics that cannot be read are left out`() async throws {
    try await Operator.test { service in
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
      service.metrics.gauges("last") { [.init(3)] }
      let others =
        "# HELP first first\n# TYPE first gauge\nfirst 1\n# HELP last last\n# TYPE last gauge\nlast 3\n"
      for _ in 0..<3 { #expect(try await service.get("/metrics").text == others) }
      #expect(asked.withLock { $0 } == 1)
      gate.continuation.finish()
      let end = ContinuousClock.now + .seconds(30)
      while try await !service.get("/metrics").text.contains("\nslow 2\n"), ContinuousClock.now < end {}
      #expect(try await service.get("/metrics").text.contains("\nslow 2\n"))
    }
  }

  @Test func `Who shuts down is not ready`() async throws {
    try await Operator.test { service in
      service.readiness.drain()
      let (status, document) = try await service.ready()
      #expect(status == 503)
      #expect(document["status"]?.string == "unavailable")
      #expect(document["checks"]?["service"]?["status"]?.string == "draining")
      #expect(try await service.get("/healthz").status == 200)
    }
  }

  @Test func `Metrics are text for prometheus`() async throws {
    try await Operator.test { service in
      service.metrics.makeCounter(label: "c", dimensions: []).increment(by: 1)
      let answer = try await service.get("/metrics")
      #expect(answer.status == 200)
      #expect(answer.headers[.contentType] == "text/plain; version=0.0.4; charset=utf-8")
      #expect(answer.text == "# HELP c c\n# TYPE c counter\nc 1\n")
    }
  }

  @Test(arguments: [
    nil, "", "hunter2", "Basic hunter2", "Bearer", "Bearer ", "Bearer hunter", "Bearer hunter22",
  ])
  func `With a token set metrics are for who shows it`(_ authorization: String?) async throws {
    try await Operator.test(token: "hunter2") { service in
      let answer = try await service.get("/metrics", authorization: authorization)
      #expect(answer.status == 401)
      #expect(answer.headers[.wwwAuthenticate] == "Bearer")
      #expect(!answer.text.contains("TYPE"))
      #expect(!answer.text.contains("hunter2"))
    }
  }

  @Test(arguments: ["Bearer hunter2", "bearer hunter2"])
  func `The token opens the metrics and health needs none`(_ authorization: String) async throws {
    try await Operator.test(token: "hunter2") { service in
      let metrics = try await service.get("/metrics", authorization: authorization)
      #expect(metrics.status == 200)
      for path in ["/healthz", "/readyz"] {
        let answer = try await service.get(path)
        #expect(answer.status == 200)
      }
    }
  }

  @Test func `With a token set the state is for everybody and what it is made of for who shows it`()
    async throws
  {
    try await Operator.test(
      token: "hunter2",
      prepare: { folder in
        try folder.writeBouncerKey()
        try folder.writeAPNs("main")
      }
    ) { service in
      #expect(try await service.ready().document == ["status": "ready"])
      let wrong = try await service.get("/readyz", authorization: "Bearer hunter")
      #expect(wrong.status == 401 && !wrong.text.contains("main"))
      let right = try await service.get("/readyz", authorization: "Bearer hunter2")
      #expect(try JSON.parse(right.text)["checks"]?["apns:main"]?["status"] == "unknown")
      service.readiness.drain()
      let (status, document) = try await service.ready()
      #expect(status == 503 && document == ["status": "unavailable"])
    }
  }

  @Test func `Every answer has an ID`() async throws {
    try await Operator.test { service in
      for path in ["/healthz", "/readyz", "/metrics", "/nothing"] {
        let answer = try await service.get(path)
        #expect(answer.headers[.xRequestID]?.isEmpty == false)
      }
    }
  }
}
