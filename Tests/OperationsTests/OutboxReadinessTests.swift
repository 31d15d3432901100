import Foundation
import HTTP
import Operations
import Providers
import Registrations
import TestSupport
import Testing

@testable import Delivery

/// What `/readyz` says of the outbox.
@Suite struct OutboxReadinessTests {
  @Test func `What waits is shown with its age, and degrades where it has waited for long`() async throws {
    try await Operator.test(
      prepare: { folder in
        try folder.writeBouncerKey()
        try folder.writeAPNs("main")
      }
    ) { service in
      #expect(try await service.ready().document["checks"]?["outbox"] == ["status": "ok", "depth": 0])
      try await service.keep(2, since: 300)
      #expect(
        try await service.ready().document["checks"]?["outbox"]
          == ["status": "ok", "depth": 2, "oldest_seconds": 300])
      service.clock.advance(1)
      let document = try await service.ready().document
      #expect(document["status"] == "degraded")
      let check = document["checks"]?["outbox"]
      #expect(check?["status"] == "degraded" && check?["oldest_seconds"] == 301)
      #expect(check?["reason"] == "a notification has waited for 5 min")
      #expect(check?["advice"]?.string?.hasSuffix("delivery.max_age.") == true)
      #expect(document["checks"]?["apns:main"]?["waiting"] == 2)
    }
  }

  @Test func `What only keeps to a pace may wait, but not beyond its time`() async throws {
    try await Operator.test { service in
      try await service.keep(since: 3000, due: 600, attempts: 1)
      let (_, document) = try await service.ready()
      #expect(document["status"] == "ready")
      let check = document["checks"]?["outbox"]
      #expect(check?["status"] == "ok" && check?["oldest_seconds"] == 3000)
      #expect(check?["meaning"]?.string?.contains("bouncer.notifications_per_server") == true)
      service.clock.advance(659)
      #expect(try await service.ready().document["status"] == "ready")
      service.clock.advance(2)
      #expect(try await service.ready().document["status"] == "degraded")
    }
  }

  @Test func `It degrades for a minute after notifications were refused for their device's backlog`()
    async throws
  {
    try await Operator.test { service in
      let delivery = RegisteredPush(
        push: .fcm(FCMMessage(token: "token", data: ["name": "n"])),
        registration: .init(.nextcloud, id: 1, registeredAt: service.clock.now), owner: .address(1))
      let route = Route(provider: .fcm, credential: "main", target: "demo")
      let dueAt = service.clock.now + 60
      try await service.outbox.keep((0..<101).map { _ in (delivery, route, dueAt) })
      var check = try await service.ready().document["checks"]?["outbox"]
      #expect(check?["status"] == "degraded")
      #expect(check?["reason"]?.string?.hasPrefix("notifications are refused: as many as may (100)") == true)
      #expect(check?["advice"]?.string?.contains("route") == true)
      service.clock.advance(60)
      check = try await service.ready().document["checks"]?["outbox"]
      #expect(check?["status"] == "ok")
    }
  }

  @Test func `Behind what keeps to a pace what cannot be sent is found`() async throws {
    try await Operator.test { service in
      try await service.keep(20, since: 3000, due: 600, attempts: 1)
      try await service.keep(since: 400, due: 100, attempts: 4)
      let check = try await service.ready().document["checks"]?["outbox"]
      #expect(check?["status"] == "degraded" && check?["reason"] == "a notification has waited for 6 min")
    }
  }
}
