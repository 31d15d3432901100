import Foundation
import NIOCore
import Providers
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport

@testable import Basics
@testable import Delivery
@testable import HTTPClient

/// An outbox in a database of its own.
final class OutboxStore: Sendable {
  static let route = Route(provider: .apns, credential: "main", target: "org.example.chat")
  static let otherRoute = Route(provider: .fcm, credential: "default", target: "demo")

  static let owner = Owner.chatServer(1)

  let clock = TestClock()
  private let test: TestDatabase
  let database: any Database
  let outbox: Outbox

  init(maxAge: TimeInterval = 3600, limits: Outbox.Limits = .init()) async throws {
    test = try await TestDatabase()
    database = test.database
    outbox = Self.outbox(database, clock, maxAge: maxAge, limits: limits)
  }

  /// Another outbox on the same database, as after a restart or on another node.
  func reopened(limits: Outbox.Limits = .init(), key: UInt8 = 7) -> Outbox {
    Self.outbox(database, clock, limits: limits, key: key)
  }

  private static func outbox(
    _ database: any Database, _ clock: TestClock, maxAge: TimeInterval = 3600,
    limits: Outbox.Limits = .init(), key: UInt8 = 7
  ) -> Outbox {
    Outbox(
      database: database, storageKey: StorageKey(bytes: [UInt8](repeating: key, count: 32)), maxAge: maxAge,
      limits: limits, now: { clock.now }, isClockTrusted: { clock.isTrusted })
  }

  /// Stores one entry, due after `due` seconds.
  func keep(_ delivery: RegisteredPush, on route: Route = route, due: TimeInterval = 0) async throws {
    try await outbox.keep([(delivery, route, clock.now + due)])
  }

  /// How many rows there are.
  func rows() async throws -> Int64 {
    try await database.read { try $0.query(Statement("SELECT COUNT(*) FROM outbox")).integer }
  }

  /// How many rows were written before the only one of a registration.
  func rows(before registration: Int64) async throws -> Int64 {
    try await database.read {
      try $0.query(
        Statement(
          "SELECT COUNT(*) FROM outbox WHERE id < (SELECT id FROM outbox WHERE registration_id = $1)",
          .integer(registration))
      ).integer
    }
  }

  /// The id of the newest row. Ids are given in turn, and none twice.
  func newestID() async throws -> Int64 {
    try await database.read { try $0.query(Statement("SELECT MAX(id) FROM outbox")).integer }
  }

  /// Whether this text is kept in clear.
  func keeps(inClear text: String) async throws -> Bool {
    try await test.contents().range(of: Data(text.utf8)) != nil
  }
}

extension Outbox {
  /// Takes what is due of an owner.
  func lease(
    _ route: Route, of owner: Owner = OutboxStore.owner, limit: Int, for seconds: TimeInterval
  ) async throws -> [Entry] {
    try await lease([.init(owner: owner, limit: limit)], of: route, for: seconds).entries
  }

  /// Takes what is due on a route, nine at most unless told otherwise, for half a minute.
  func take(_ limit: Int = 9, on route: Route = OutboxStore.route) async throws -> [Entry] {
    try await lease(route, limit: limit, for: 30)
  }

  /// Takes the entries due on a route and returns their texts.
  func texts(_ limit: Int = 9, on route: Route = OutboxStore.route) async throws -> [String] {
    try await take(limit, on: route).map(\.delivery.text)
  }

  func remove(_ entries: [Entry]) async throws { try await settle(entries.map { ($0.lease, nil) }) }

  /// The routes with something due.
  func dueRoutes() async throws -> [Route] { try await dueQueues().map(\.route) }
}

extension RegisteredPush {
  /// A delivery that its text identifies.
  static func sample(
    _ text: String, kind: Wire = .e2ee, registration: Int64 = 1,
    token: String = String(repeating: "ab", count: 32),
    expiration: Date? = nil, collapseID: String? = nil, owner: Owner = OutboxStore.owner,
    isBackground: Bool = false
  ) -> RegisteredPush {
    RegisteredPush(
      push: .apns(
        APNsNotification(
          token: token, topic: "org.example.chat", payload: ByteBuffer(string: text), pushType: .alert,
          priority: 10, expiration: expiration, collapseID: collapseID)),
      registration: .init(
        kind, id: registration, registeredAt: Date(timeIntervalSince1970: 1_789_000_000.25)), owner: owner,
      isBackground: isBackground)
  }

  /// What it says.
  var text: String {
    switch push {
    case .apns(let push): String(buffer: push.payload)
    case .fcm(let push): push.data["text"] ?? ""
    case .webPush(let push): String(buffer: push.body)
    case .upstream: ""
    }
  }
}

extension Outbox.Kept {
  /// Why it was left out.
  var reason: Reason? {
    guard case .leftOut(let reason) = self else { return nil }
    return reason
  }
}
