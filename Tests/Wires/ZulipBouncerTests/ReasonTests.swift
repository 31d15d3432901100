import Basics
import Foundation
import HTTP
import HTTPTypes
import Logging
import NIOCore
import Operator
import ProviderSimulator
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import Delivery
@testable import HTTPClient
@testable import Providers
@testable import ZulipBouncer

/// Tests that every reason for which a notification is lost or waits reaches whoever looks for it: its registration or
/// the waiting notification, `push/status`, and the operator's `device show`, `outbox list` and log. A new reason is
/// tested by being in `Reason`; one that an outcome of its own has is a row in ``Outcome/usual(_:)``.
@Suite("A reason") struct ReasonTests {
  /// The outcomes that have this reason, from the tables of all providers; a failed try for one that is in none.
  static func outcomes(with reason: Reason) -> [Outcome] {
    let labels = Set(
      Route.Provider.allCases.flatMap { Outcome.usual($0) }.filter { $0.value.contains(reason) }.map(\.key))
    let outcomes = labels.sorted().flatMap { label -> [Outcome] in
      switch label {
      case "dead": [.dead(reason, since: nil)]
      case "suspect": [.suspect(reason)]
      case "rejected": [.rejected(reason)]
      case "misconfigured": [.misconfigured(reason)]
      default: [.retry(reason, notBefore: nil, scope: .route), .retry(reason, notBefore: nil, scope: .token)]
      }
    }
    return outcomes.isEmpty ? [.retry(reason, notBefore: nil, scope: .route)] : outcomes
  }

  /// A device that gets a notification.
  private struct Stage {
    let bouncer: Bouncer
    let server: Credentials
    let realm: String
    let log: LogRecorder
    var deliverer: Deliverer { bouncer.parts.deliverer }
    let owner: Owner

    /// A push to a new device.
    func push(_ token: String, topic: String = Simulated.topic) async throws -> RegisteredPush {
      let answer = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.apns(token)), as: server)
      #expect(answer.isSuccess)
      let row = try #require(
        try await bouncer.rows("SELECT id, registered_at FROM registrations ORDER BY id DESC LIMIT 1").first)
      guard case .integer(let id) = row[0], case .integer(let time) = row[1] else {
        throw CancellationError()
      }
      let push = Push.apns(
        APNsNotification(token: token, topic: topic, payload: ByteBuffer(string: "{}"), pushType: .alert))
      let registeredAt = Date(timeIntervalSince1970: Double(time) / 1000)
      return RegisteredPush(
        push: push, registration: .init(.e2ee, id: id, registeredAt: registeredAt), owner: owner)
    }

    /// Has the provider answer a push that is under way.
    func answer(_ delivery: RegisteredPush, _ outcome: Outcome) async throws {
      let sender = try #require(deliverer.providers.routeSender(for: delivery.push))
      let now = bouncer.clock.now
      let kept = try #require(try await deliverer.outbox.keep([(delivery, sender.route, now + 75)]).first)
      let start = DeliveryStart(began: now, takenAt: now, handedOver: nil, sent: now)
      let answer = RouteSender.Answer(outcome: outcome, sender: sender)
      deliverer.handleLateAnswer({ answer }, to: delivery, start, under: kept.lease)
      await deliverer.settled()
    }

    /// Checks what is said of a push's device.
    func check(_ delivery: RegisteredPush, _ reason: Reason, isWaiting: Bool) async throws {
      let told = reason.explanation.told(to: .chatServer)
      guard case .apns(let notification) = delivery.push else { return }
      let id = TokenID(token: notification.token).base64.replacing("+", with: "%2B").replacing(
        "=", with: "%3D")
      let status = try await bouncer.call("push/status?token_id=\(id)", .get, authorization: server.header)
      guard case .array(let all)? = status.json["registrations"] else {
        Issue.record("\(status.text)")
        return
      }
      let registration = try #require(all.first)
      let said = registration[isWaiting ? "waiting_for" : "last_failure"]
      #expect(said?["reason"] == .string(reason.rawValue), "\(reason): \(registration.text)")
      #expect(said?["meaning"] == .string(told.meaning), "\(reason)")
      #expect(said?["advice"] == .string(told.advice), "\(reason)")
      #expect(
        registration["advice"]?.string?.contains(told.meaning) == true, "\(reason): \(registration.text)")
      let search = DeviceSearch(database: bouncer.database, storageKey: bouncer.registrations.storageKey)
      let device = try await search.find(
        .registration(wire: delivery.registration.wire.rawValue, id: delivery.registration.id)
      ).devices.first
      #expect((isWaiting ? device?.waitReason : device?.failure?.reason) == reason.rawValue)
      if isWaiting {
        let groups = try await OutboxContents(database: bouncer.database).listing().groups
        #expect(groups.contains { $0.reason == reason.rawValue }, "\(reason)")
      } else {
        #expect(log.lines.contains { $0.metadata["reason"] == "\(reason)" }, "\(reason)")
      }
    }
  }

  private func stage(_ body: @escaping @Sendable (Stage) async throws -> Void) async throws {
    let log = LogRecorder()
    try await Simulated.test(["bouncer.rate_limit.per_server": "0"], logger: log.logger) { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let id = try #require(try await bouncer.servers.find(hostname: "chat.example.org")).id
      try await body(
        Stage(
          bouncer: bouncer, server: server, realm: try await bouncer.realm(of: server), log: log,
          owner: .chatServer(id)))
    }
  }

  @Test func `of a provider's answer is said by all who are asked why nothing came`() async throws {
    try await stage { stage in
      var number = 0
      for reason in Reason.allCases {
        for outcome in Self.outcomes(with: reason) {
          number += 1
          // Lines of the log are limited by the minute.
          stage.bouncer.clock.advance(61)
          let delivery = try await stage.push(String(format: "%064x", number))
          try await stage.answer(delivery, outcome)
          let isWaiting = ["retry", "misconfigured"].contains(outcome.label)
          try await stage.check(delivery, reason, isWaiting: isWaiting)
        }
      }
    }
  }

  @Test func `of our own is said by all who are asked why nothing came`() async throws {
    try await stage { stage in
      let unserved = try await stage.push("aa", topic: "org.example.other")
      #expect(try await stage.deliverer.deliver([unserved]) == [.refused(.unconfigured)])
      try await stage.check(unserved, .unconfigured, isWaiting: false)

      var paced = try await stage.push("bb")
      paced.notBefore = stage.bouncer.clock.now + 90
      #expect(try await stage.deliverer.deliver([paced]) == [.queued])
      try await stage.check(paced, .serverOverPace, isWaiting: true)

      let many = [RegisteredPush](repeating: paced, count: 100)
      #expect(try await stage.deliverer.deliver(many).last == .refused(.backlogged))
      let device = try await DeviceSearch(
        database: stage.bouncer.database, storageKey: stage.bouncer.registrations.storageKey
      ).find(.registration(wire: 1, id: paced.registration.id)).devices.first
      #expect(device?.failure?.reason == "backlogged")
      #expect(stage.log.lines.contains { $0.message.hasPrefix("notifications refused:") })
    }
  }

  @Test(arguments: Reason.allCases)
  func `tells a chat server's admin of no file, setting or command of this service`(_ reason: Reason) {
    let told = reason.explanation.told(to: .chatServer)
    let words =
      Configuration.settings.map(\.key) + ["push-bouncer", "Keys/", "this machine", "key_id", "team_id"]
    for text in [told.meaning, told.advice] {
      #expect(text.first?.isUppercase == true && text.hasSuffix("."), "\(text)")
      #expect(words.filter { text.contains($0) } == [], "\(reason): \(text)")
    }
  }

  @Test func `for which a device was not registered has a sentence of its own`() {
    let meanings = RegistrationRefusal.allCases.map(\.meaning)
    #expect(Set(meanings).count == meanings.count && meanings.allSatisfy { $0.hasSuffix(".") })
  }
}
