import Basics
import Foundation
import HTTP
import HTTPClient
import HTTPTypes
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import Server
import TestService
import TestSupport
import Testing

@testable import WebPushGateway

@Suite("Bodies that wait at the Web Push gateway")
struct WaitingBodiesTests {
  @Test(arguments: PushToken.Kind.allCases, ["aes128gcm", "aesgcm"])
  func `wait until the app fetches them`(
    _ kind: PushToken.Kind, _ encoding: String
  ) async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe(Gateway.registration(kind))
      let other = try await gateway.subscribe(Gateway.registration(kind))
      var headers: HTTPFields = [:]
      if encoding == "aesgcm" { headers = [.cryptoKey: "dh=BEl6", .encryption: "salt=lnga"] }
      let body = Gateway.ciphertext(4096)
      #expect(try await gateway.post(app, headers, body: body, encoding: encoding).status == 201)
      let arrived = try #require(gateway.arrived().first)
      #expect(arrived["encoding"]?.string == encoding && arrived["body"] == nil)
      let path = "/webpush/v1/messages/" + (try #require(arrived["message"]?.string))
      #expect(try await gateway.test.contents().range(of: Data(body)) == nil)

      #expect(try await gateway.call(.get, path).status == 401)
      #expect(try await gateway.call(.get, path, secret: other.secret).status == 404)
      for _ in 1...2 {
        let got = try await gateway.test.call(.get, path, headers: [.authorization: "Bearer \(app.secret)"])
        #expect(got.status == 200 && got.headers[.contentEncoding] == encoding)
        #expect(
          got.headers[.cryptoKey] == headers[.cryptoKey] && got.headers[.encryption] == headers[.encryption])
        #expect(got.headers[.contentLength] == "4096")
      }
      // Its end, and the time for an app that fetches it late.
      gateway.clock.advance(299)
      #expect(try await gateway.call(.get, path, secret: app.secret).status == 200)
      gateway.clock.advance(2)
      #expect(try await gateway.call(.get, path, secret: app.secret).status == 404)
      let store = gateway.test.service.store
      let messages = GatewayMessages(
        database: store.database, storageKey: store.storageKey, now: { gateway.clock.now })
      #expect(try await messages.removeExpired(limit: 10) == 1)
      #expect(try await gateway.count("gateway_messages") == 0)
    }
  }

  @Test func `of messages that are now or never still wait for the phone that has got their push`()
    async throws
  {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe(Gateway.registration(.apns))
      #expect(try await gateway.post(app, body: Gateway.ciphertext(4096), ttl: "0").status == 201)
      #expect(gateway.simulator.deliveries().first?.header("apns-expiration") == "0")
      let message = try #require(gateway.arrived().first?["message"]?.string)
      gateway.clock.advance(60)
      #expect(
        try await gateway.call(.get, "/webpush/v1/messages/\(message)", secret: app.secret).status == 200)
    }
  }

  @Test func `whose bodies wait can be fetched while the clock is in doubt`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      #expect(try await gateway.post(app, body: Gateway.ciphertext(4096)).status == 201)
      let message = try #require(gateway.arrived().first?["message"]?.string)
      func fetch() async throws -> Int {
        try await gateway.call(.get, "/webpush/v1/messages/\(message)", secret: app.secret).status
      }
      gateway.clock.jump(25 * 3600)
      #expect(try await fetch() == 200)
      gateway.clock.jump(-25 * 3600)
      #expect(try await fetch() == 200)
    }
  }

  @Test func `are listed for their app alone, oldest first, until it fetches them`() async throws {
    try await Gateway.test { gateway in
      let (app, other) = (try await gateway.subscribe(), try await gateway.subscribe(Gateway.second))
      #expect(try await gateway.list(app).isEmpty)
      let bodies = try await gateway.postLong(3, to: app)
      _ = try await gateway.postLong(1, to: other)
      #expect(try await gateway.post(app).status == 201)

      let answer = try await gateway.call(.get, "\(app.path)/messages", secret: app.secret)
      let first = try #require(answer.json["messages"]?.elements.first)
      #expect(first["encoding"]?.string == "aes128gcm")
      let end = first["expires_at"]?.string.flatMap { try? Date($0, strategy: .iso8601) }
      #expect(end.map { abs($0.timeIntervalSince(gateway.clock.now) - 3600) < 2 } == true)
      #expect(try await gateway.fetchAll(app) == bodies)
      // Each may be fetched again for a while, but does not wait any more.
      #expect(try await gateway.list(app).isEmpty)
      #expect(try await gateway.list(other).count == 1)

      #expect(try await gateway.call(.get, "\(app.path)/messages").status == 401)
      #expect(try await gateway.call(.get, "\(app.path)/messages", secret: other.secret).status == 401)
      _ = try await gateway.postLong(1, to: app)
      gateway.clock.advance(3601)
      #expect(try await gateway.list(app).isEmpty)
    }
  }

  @Test func `are the newest hundred, and the sender is told nothing`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      let bodies = try await gateway.postLong(130, to: app)
      #expect(try await gateway.count("gateway_messages") == 100)
      #expect(try await gateway.fetchAll(app) == Array(bodies.suffix(100)))
    }
  }

  @Test func `outlive the word of a provider that their token is dead`() async throws {
    try await Gateway.test { gateway in
      let sender = Sender()
      let registration = Gateway.registration(.apns, sender: sender)
      let app = try await gateway.subscribe(registration)
      let bodies = try await gateway.postLong(2, to: app, try sender.authorization(at: gateway.clock.now))
      gateway.simulator.setToken(
        Gateway.apnsToken, TokenRule(status: 410, reason: "Unregistered", timestamp: .none))
      #expect(try await gateway.post(app, try sender.authorization(at: gateway.clock.now)).status == 410)
      #expect(try await gateway.call(.get, app.path, secret: app.secret).status == 404)
      #expect(try await gateway.list(app).count == 2)

      gateway.simulator.setToken(Gateway.apnsToken, nil)
      // Who makes it again says who may send.
      let mute = try await gateway.call(.put, app.path, Gateway.registration(.apns), secret: app.secret)
      #expect(mute.status == 400 && mute.json["code"]?.string == "application_server_key_missing")
      #expect(try await gateway.post(app).status == 410)
      #expect(try await gateway.call(.put, app.path, registration, secret: app.secret).status == 201)
      #expect(try await gateway.post(app).status == 401)
      #expect(try await gateway.fetchAll(app) == bodies)
    }
  }

  @Test func `end with their subscription`() async throws {
    try await Gateway.test { gateway in
      let (app, other) = (try await gateway.subscribe(), try await gateway.subscribe(Gateway.second))
      _ = try await gateway.postLong(2, to: app)
      _ = try await gateway.postLong(1, to: other)
      #expect(try await gateway.call(.delete, app.path, secret: app.secret).status == 204)
      #expect(try await gateway.count("gateway_messages") == 1)
      #expect(try await gateway.list(app).isEmpty)
      #expect(try await gateway.list(other).count == 1)
    }
  }

  /// Also by one that fits into its push.
  @Test(arguments: [200, 4096])
  func `are replaced by a newer message of the same topic, once that is promised`(_ length: Int) async throws
  {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe(Gateway.registration(.apns))
      let other = try await gateway.subscribe(Gateway.second)
      _ = try await gateway.postLong(1, to: app, [.topic: "a"])
      let rest = try await gateway.postLong(1, to: app, [.topic: "b"]) + gateway.postLong(1, to: app)
      _ = try await gateway.postLong(1, to: other, [.topic: "a"])
      gateway.simulator.setToken(Gateway.apnsToken, TokenRule(status: 400, reason: "BadPriority"))
      #expect(try await gateway.post(app, [.topic: "a"], body: Gateway.ciphertext(length)).status == 503)
      #expect(try await gateway.list(app).count == 3)
      gateway.simulator.setToken(Gateway.apnsToken, nil)

      let body = Gateway.ciphertext(length)
      #expect(try await gateway.post(app, [.topic: "a="], body: body).status == 201)
      #expect(try await gateway.fetchAll(app) == rest + (length > 3000 ? [body] : []))
      #expect(try await gateway.list(other).count == 1)
    }
  }

  @Test func `of messages that come at the same time are as if they came one after the other`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      func postAtOnce(_ count: Int, _ headers: HTTPFields = [:]) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for _ in 1...count {
            group.addTask {
              let answer = try await gateway.post(app, headers, body: Gateway.ciphertext(4096))
              #expect(answer.status == 201)
            }
          }
          try await group.waitForAll()
        }
      }
      try await postAtOnce(12, [.topic: "a"])
      #expect(try await gateway.list(app).count == 1)
      _ = try await gateway.postLong(97, to: app)
      try await postAtOnce(12)
      #expect(try await gateway.list(app).count == 100)
    }
  }

  @Test func `of one sender leave room for those of others`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      let own = try await gateway.postLong(30, to: app, [.xForwardedFor: "192.0.2.1"])
      // An IPv6 /48 is one sender.
      for number in 1...80 {
        let address = "2001:db8:1:\(number)::1"
        _ = try await gateway.postLong(1, to: app, [.xForwardedFor: address])
      }
      let late = try await gateway.postLong(25, to: app, [.xForwardedFor: "192.0.2.2"])
      let waiting = try await gateway.fetchAll(app)
      #expect(waiting.count == 100)
      #expect(waiting.count { own.contains($0) } == 30 && waiting.count { late.contains($0) } == 25)
    }
  }

  @Test func `and pushes are taken back by whoever may send`() async throws {
    try await Gateway.test { gateway in
      let (sender, stranger) = (Sender(), Sender())
      let app = try await gateway.subscribe(Gateway.registration(.fcm, sender: sender))
      func post(_ more: HTTPFields, _ length: Int) async throws -> String {
        let headers = try sender.authorization(at: gateway.clock.now).merging(more)
        let answer = try await gateway.post(app, headers, body: Gateway.ciphertext(length), ttl: "3600")
        #expect(answer.status == 201)
        return String(try #require(answer.headers[.location]).dropFirst(Gateway.publicURL.count))
      }
      func takeBack(_ path: String, by sender: Sender?) async throws -> Int {
        let headers = try sender?.authorization(at: gateway.clock.now) ?? [:]
        return try await gateway.test.call(.delete, path, headers: headers).status
      }
      #expect(try await post([:], 200) != post([:], 200))
      let working = gateway.simulator.faults
      var faults = working
      faults.fcm.outage = true
      await gateway.simulator.setFaults(faults)
      let paths = [try await post([:], 200), try await post([:], 4096), try await post([.topic: "a"], 4096)]
      let rest = try await post([:], 4096)
      #expect(try await gateway.count("outbox") == 4)
      for path in paths {
        #expect(try await takeBack(path, by: nil) == 401)
        #expect(try await takeBack(path, by: stranger) == 403)
      }
      #expect(try await gateway.count("outbox") == 4)
      for path in paths + paths { #expect(try await takeBack(path, by: sender) == 204) }
      #expect(try await gateway.count("outbox") == 1)
      #expect(try await gateway.list(app).count == 1)
      #expect(rest.hasPrefix(app.push))
      #expect(try await takeBack(app.push + "/x", by: sender) == 404)
      #expect(try await takeBack(app.push.dropLast(2) + "xx/" + GatewayID().text, by: sender) == 404)
    }
  }

  @Test func `that their app has fetched are not announced any more`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      var faults = gateway.simulator.faults
      faults.fcm.outage = true
      await gateway.simulator.setFaults(faults)
      let bodies =
        try await gateway.postLong(1, to: app) + gateway.postLong(1, to: app, [.topic: "a"])
      #expect(try await gateway.count("outbox") == 2)
      #expect(try await gateway.fetchAll(app) == bodies)
      // A newer message of the topic may have taken the place of the push.
      #expect(try await gateway.count("outbox") == 1)
    }
  }

  @Test func `that an older program has kept are found and listed`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      let bodies = try await gateway.postLong(2, to: app)
      let store = gateway.test.service.store
      _ = try await store.database.execute(
        "UPDATE gateway_messages SET subscription = NULL, sender = NULL, number = NULL WHERE number = 1")
      let message = try #require(gateway.arrived().first?["message"]?.string)
      let path = "/webpush/v1/messages/\(message)"
      let found = try await gateway.test.call(.get, path, headers: [.authorization: "Bearer \(app.secret)"])
      #expect(found.status == 200 && found.bytes == bodies[0])
      _ = try await store.database.execute("UPDATE gateway_messages SET expires_at = expires_at + 86400000")
      let messages = GatewayMessages(
        database: store.database, storageKey: store.storageKey, now: { gateway.clock.now })
      #expect(try await messages.removeExpired(limit: 10) == 0)
      #expect(try await gateway.fetchAll(app) == bodies)
    }
  }

  @Test(
    arguments: [
      ([], 1, []),
      (Array(repeating: 1, count: 99), 1, []),
      (Array(repeating: 1, count: 100), 1, [0]),
      // Whoever has most gives way.
      (Array(repeating: 1, count: 49) + Array(repeating: 2, count: 51), 1, [49]),
      (Array(repeating: 1, count: 49) + Array(repeating: 2, count: 51), 3, [49]),
      (Array(repeating: 1, count: 50) + Array(repeating: 2, count: 50), 2, [50]),
      (Array(1...100), 101, [0]),
      (Array(repeating: 1, count: 102), 1, [0, 1, 2]),
    ] as [([Int], Int, [Int])])
  func `that give way are the oldest of the sender with most`(
    _ senders: [Int], _ sender: Int, _ places: [Int]
  ) {
    var entries = senders.map { GatewayMessages.Entry.test(from: Int64($0)) }
    func giveWay() -> [GatewayMessages.Entry] {
      GatewayMessages.replaced(entries, topic: nil, sender: Int64(sender))
    }
    #expect(giveWay() == places.map { entries[$0] })
    guard places.count == 1 else { return }
    // What is over comes first.
    entries[77] = .test(from: 7, isOver: true)
    #expect(giveWay() == [entries[77]])
    #expect(GatewayMessages.replaced(entries, topic: nil, sender: nil).isEmpty)
  }
}

extension GatewayMessages.Entry {
  fileprivate static func test(from sender: Int64, isOver: Bool = false) -> Self {
    .init(
      id: GatewayID(), encoding: "aes128gcm", expiresAt: .distantFuture, owner: .nobody, sender: sender,
      topic: nil, isOver: isOver)
  }
}

extension HTTPFields {
  fileprivate func merging(_ other: HTTPFields) -> HTTPFields {
    var fields = self
    fields.append(contentsOf: other)
    return fields
  }
}

extension Gateway {
  fileprivate static let second = registration(.fcm, token: fcmToken + "2")

  /// Posts messages whose bodies do not fit into a push.
  fileprivate func postLong(_ count: Int, to app: App, _ headers: HTTPFields = [:]) async throws -> [[UInt8]]
  {
    let bodies = (0..<count).map { _ in Self.ciphertext(4096) }
    for body in bodies {
      let answer = try await post(app, headers, body: body, ttl: "3600")
      #expect(answer.status == 201, "\(answer.text)")
    }
    return bodies
  }

  fileprivate func list(_ app: App) async throws -> [JSON] {
    let answer = try await call(.get, "\(app.path)/messages", secret: app.secret)
    #expect(answer.status == 200)
    return answer.json["messages"]?.elements ?? []
  }

  /// The bodies that wait, in the order of the list.
  fileprivate func fetchAll(_ app: App) async throws -> [[UInt8]] {
    var bodies: [[UInt8]] = []
    for message in try await list(app) {
      let path = "/webpush/v1/messages/\(message["id"]?.string ?? "")"
      let answer = try await test.call(.get, path, headers: [.authorization: "Bearer \(app.secret)"])
      #expect(answer.status == 200)
      bodies.append(answer.bytes)
    }
    return bodies
  }
}
