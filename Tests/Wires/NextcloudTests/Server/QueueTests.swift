import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Sealing
import Synchronization
import TestService
import TestSupport
import Testing

@testable import NextcloudServer

/// Tests that notifications that a proxy could not take are retried (`Documentation/Decisions` 0022).
@Suite struct QueueTests {
  /// Runs a test beside a proxy, with an app registered there.
  private func withPhone(
    _ settings: [String: String] = [:],
    _ test: @escaping @Sendable (Instance, OthersHost, SignedIn) async throws -> Void
  ) async throws {
    try await OthersHost.runProxy { proxy in
      try await Instance.test(Instance.localProxies.merging(settings) { $1 }) { instance in
        let app = try await instance.user()
        try await app.register(proxy: proxy.url)
        try await test(instance, proxy, app)
      }
    }
  }

  /// Runs a sender on each of several nodes during a test.
  private func running(
    _ sender: NextcloudSender, nodes: Int = 1, test: () async throws -> Void
  ) async throws {
    let tasks = (0..<nodes).map { _ in Task { await sender.run() } }
    defer { for task in tasks { task.cancel() } }
    try await test()
    for task in tasks {
      task.cancel()
      await task.value
    }
  }

  private func queued(_ receipt: NextcloudReceipt) -> Int { receipt.proxies.map(\.queued).reduce(0, +) }

  @Test func `what a proxy fails to take comes again, the very same`() async throws {
    try await withPhone { instance, proxy, app in
      proxy.reply(500, "disk full")
      #expect(queued(try await instance.sender.notify(app.user, .chat())) == 1)
      #expect(try await instance.pushes.queue.count() == 1)
      try await running(instance.sender) {
        // It is away once more; each time the pause grows.
        instance.clock.advance(300)
        await eventually("it was tried again") { proxy.seen.count >= 2 }
        proxy.reply(200, #"{"unknown":[],"failed":0}"#)
        try await eventually("it was taken") {
          instance.clock.advance(300)
          return try await instance.pushes.queue.count() == 0
        }
      }
      #expect(Set(proxy.seen.map(\.body)).count == 1)
    }
  }

  @Test func `nothing is given up while the clock may be wrong, and what it put off is due`() async throws {
    try await withPhone { instance, proxy, app in
      proxy.reply(500, "disk full")
      #expect(queued(try await instance.sender.notify(app.user, .chat())) == 1)
      instance.clock.jump(25 * 3600)
      #expect(try await instance.pushes.removeExpired() == 0)
      #expect(try await instance.pushes.dueProxies() == [proxy.url])
      #expect(try await instance.pushes.lease(proxy: proxy.url, limit: 9, for: 60).count == 1)
      // The lease was taken a day ahead.
      instance.clock.jump(-25 * 3600)
      try await instance.test.trustClock()
      #expect(try await instance.pushes.dueProxies() == [])
      try await instance.pushes.queue.bringForward()
      #expect(try await instance.pushes.dueProxies() == [proxy.url])
      instance.clock.advance(25 * 3600)
      #expect(try await instance.pushes.removeExpired() == 1)
    }
  }

  @Test func `a slow proxy holds nobody up, and its answer counts when it comes`() async throws {
    try await withPhone(["delivery.deadline": "50ms"]) { instance, proxy, app in
      let barrier = Barrier()
      proxy.reply { _ in
        await barrier.wait()
        return OthersHost.response(200, #"{"unknown":[],"failed":0}"#)
      }
      let receipt = try await instance.sender.notify(app.user, .chat())
      #expect(receipt.proxies == [.init(url: proxy.url, status: nil, queued: 1)])
      #expect(try await instance.pushes.queue.count() == 1)
      try await running(instance.sender, nodes: 2) {
        instance.clock.advance(39)
        barrier.open()
        try await eventually("the answer was acted on") { try await instance.pushes.queue.count() == 0 }
      }
      #expect(proxy.seen.count == 1)
    }
  }

  @Test func `what a slow proxy says of an unknown phone counts too`() async throws {
    try await withPhone(["delivery.deadline": "50ms"]) { instance, proxy, app in
      let barrier = Barrier()
      let identifier = try #require(try await app.registration()).description.deviceIdentifier
      proxy.reply { _ in
        await barrier.wait()
        return OthersHost.response(400, OthersHost.unknown([identifier], failed: 1))
      }
      #expect(queued(try await instance.sender.notify(app.user, .chat())) == 1)
      barrier.open()
      try await eventually("the phone went") { try await app.registration() == nil }
      try await eventually("its pushes went") { try await instance.pushes.queue.count() == 0 }
    }
  }

  @Test func `what was under way when a sender died is taken over`() async throws {
    try await withPhone(["delivery.deadline": "50ms"]) { instance, proxy, app in
      let barrier = Barrier()
      let count = Mutex(0)
      proxy.reply { _ in
        // The first request never gets its answer.
        if count.withLock({
          $0 += 1; return $0
        }) == 1 {
          await barrier.wait()
        }
        return OthersHost.response(200, #"{"unknown":[],"failed":0}"#)
      }
      #expect(queued(try await instance.sender.notify(app.user, .chat())) == 1)
      try await running(instance.sender) {
        instance.clock.advance(41)
        try await eventually("it was taken over") { try await instance.pushes.queue.count() == 0 }
      }
      barrier.open()
      #expect(proxy.seen.count == 2)
      #expect(Set(proxy.seen.map(\.body)).count == 1)
    }
  }

  @Test func `several senders send nothing twice, and a dead proxy holds up no other`() async throws {
    try await withPhone { instance, proxy, app in
      let barrier = Barrier()
      defer { barrier.open() }
      try await OthersHost.runProxy { dead in
        let second = try await instance.app(of: app.user)
        try await second.register(proxy: dead.url)
        dead.reply(503, "")
        proxy.reply(503, "")
        for nid in Int64(1)...30 { _ = try await instance.sender.notify(app.user, .chat(nid)) }
        #expect(try await instance.pushes.queue.count() == 60)
        proxy.reply(200, #"{"unknown":[],"failed":0}"#)
        dead.reply { _ in
          await barrier.wait()
          return OthersHost.response(503, "")
        }
        let before = proxy.seen.count
        instance.clock.advance(5)
        try await running(instance.sender, nodes: 4) {
          try await eventually("the living proxy has everything") {
            try await instance.pushes.queue.count() == 30
          }
          barrier.open()
        }
        let subjects = proxy.seen[before...].flatMap { $0.entries.compactMap { $0["subject"]?.string } }
        #expect(subjects.count == 30)
        #expect(Set(subjects).count == 30)
      }
    }
  }

  @Test(arguments: [400, 404, 429]) func `a refusal of what has waited is final`(status: Int) async throws {
    try await withPhone { instance, proxy, app in
      proxy.reply(500, "")
      _ = try await instance.sender.notify(app.user, .chat())
      proxy.reply(status, "no")
      instance.clock.advance(5)
      try await running(instance.sender) {
        try await eventually("it was dropped") { try await instance.pushes.queue.count() == 0 }
      }
      #expect(try await app.registration() != nil)
      #expect(proxy.seen.count == 2)
    }
  }

  @Test func `what no proxy takes for too long is given up`() async throws {
    try await withPhone { instance, proxy, app in
      proxy.reply(500, "")
      _ = try await instance.sender.notify(app.user, .chat())
      instance.clock.advance(86_399)
      #expect(try await instance.pushes.removeExpired() == 0)
      instance.clock.advance(1)
      try await running(instance.sender) {
        try await eventually("it was given up") { try await instance.pushes.queue.count() == 0 }
      }
      #expect(proxy.seen.count == 1)
    }
  }

  @Test func `what is taken back while it waits is never sent`() async throws {
    try await withPhone { instance, proxy, app in
      let bob = try await instance.user("bob", id: 11)
      try await bob.register(proxy: proxy.url)
      proxy.reply(500, "")
      for nid in Int64(1)...3 { _ = try await instance.sender.notify(app.user, .chat(nid)) }
      _ = try await instance.sender.notify(bob.user, .chat(1))
      // Two of three go, and the deletion waits in their place.
      #expect(
        queued(try await instance.sender.notify(app.user, .deletion(nids: [1, 2], app: "spreed"))) == 1)
      #expect(try await instance.pushes.queue.count() == 3)
      #expect(queued(try await instance.sender.notify(app.user, .deletion(nids: [8], app: "spreed"))) == 1)
      #expect(try await instance.pushes.queue.count() == 4)
      #expect(queued(try await instance.sender.notify(app.user, .deletionOfAll)) == 1)
      #expect(try await instance.pushes.queue.count() == 2)
      let kinds = try await instance.database.read {
        try $0.query(Statement("SELECT nid FROM nextcloud_pushes ORDER BY id")).map {
          try $0.optionalInt64("nid")
        }
      }
      #expect(kinds == [1, nil])
    }
  }

  @Test func `a deletion that is sent leaves nothing in the queue`() async throws {
    try await withPhone { instance, proxy, app in
      proxy.reply(500, "")
      _ = try await instance.sender.notify(app.user, .chat(1))
      proxy.reply(200, #"{"unknown":[],"failed":0}"#)
      let receipt = try await instance.sender.notify(app.user, .deletionOfAll)
      #expect(receipt.proxies == [.init(url: proxy.url, status: 200, sent: 1)])
      #expect(try await instance.pushes.queue.count() == 0)
    }
  }

  @Test func `what a phone can no longer read is dropped, what it can stays`() async throws {
    try await withPhone { instance, proxy, app in
      proxy.reply(500, "")
      func count(after change: () async throws -> Void) async throws -> Int64 {
        _ = try await instance.sender.notify(app.user, .chat(1))
        try await change()
        return try await instance.pushes.queue.count()
      }
      let key = try Vectors.load().otherUserPublicKey
      #expect(try await count { try await app.register(proxy: proxy.url + "/") } == 1)
      #expect(try await count { try await app.register(proxy: proxy.url, key: key) } == 0)
      #expect(try await count { try await app.register(token: "new", proxy: proxy.url, key: key) } == 0)
      #expect(
        try await count { try await app.register(token: "new", proxy: proxy.url + "/x", key: key) } == 0)
      #expect(try await count { _ = try await app.call(.delete, SignedIn.push) } == 0)
    }
  }

  @Test func `what waits for one phone has an end, and who is beyond it is told`() async throws {
    try await withPhone { instance, proxy, app in
      proxy.reply(500, "")
      let phone = try #require(try await app.registration())
      let full = (0..<NextcloudPushes.maximumPerRegistration).map {
        NextcloudPush(for: phone, nid: nil, entry: "{\"n\":\($0)}")
      }
      let now = instance.clock.now
      #expect(try await instance.pushes.keep(full, dueAt: now, expiresAt: now + 60).count == full.count)
      let receipt = try await instance.sender.notify(app.user, .chat())
      #expect(receipt.proxies == [.init(url: proxy.url, status: 500, failed: 1)])
      #expect(try await instance.pushes.keep([full[0]], dueAt: now, expiresAt: now + 60).isEmpty)
    }
  }

  @Test func `what waits for a proxy that works goes at once, however much it is`() async throws {
    try await withPhone { instance, proxy, app in
      let times = Mutex<[ContinuousClock.Instant]>([])
      proxy.reply { _ in
        times.withLock { $0.append(.now) }
        return OthersHost.response(200, #"{"unknown":[],"failed":0}"#)
      }
      let now = instance.clock.now
      for number in 0..<5 {
        let next = try await instance.app(of: app.user)
        try await next.register(token: "token \(number)", proxy: proxy.url)
        let phone = try #require(try await next.registration())
        let pushes = (0..<NextcloudPushes.maximumPerRegistration).map {
          NextcloudPush(for: phone, nid: nil, entry: "{\"n\":\($0)}")
        }
        _ = try await instance.pushes.keep(pushes, dueAt: now, expiresAt: now + 60)
      }
      try await running(instance.sender) {
        try await eventually("all went") { try await instance.pushes.queue.count() == 0 }
      }
      let sent = times.withLock(\.self)
      #expect(sent.count == 5)
      // Half a second passes before it looks which proxies have something.
      let pauses = zip(sent.dropFirst(), sent).map { $0 - $1 }
      #expect(try #require(pauses.min()) < .milliseconds(400), "\(pauses)")
    }
  }

  @Test func `a sender that is stopped gives back what is under way`() async throws {
    try await withPhone { instance, proxy, app in
      proxy.reply(500, "")
      _ = try await instance.sender.notify(app.user, .chat())
      let barrier = Barrier()
      proxy.reply { _ in
        await barrier.wait()
        return OthersHost.response(500, "")
      }
      instance.clock.advance(5)
      try await running(instance.sender) {
        await eventually("it is under way") { proxy.seen.count == 2 }
      }
      barrier.open()
      #expect(try await instance.pushes.dueProxies() == [proxy.url])
    }
  }
}
