import Crypto
import Foundation
import HTTP
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Tests credentials that change under load, to valid and to invalid ones.
  @Suite(.stage) struct CredentialTests {
    private let stage = Fixture<Stage>.current

    @Test func `Wrong keys cost no registration and no notification`() async throws {
      let service = try JSON.parse(try stage.place.text(of: "Keys/fcm/default.json"))
      let files = try FileManager.default.contentsOfDirectory(
        atPath: stage.place.folder.appending(path: "Keys/apns").path)
      let p8 = "Keys/apns/" + (try #require(files.first { $0.hasSuffix(".p8") }))
      let good = try stage.place.text(of: p8)
      let description = try stage.place.text(of: "Keys/apns/simulator.json")

      try await stage.serve("--delivery.deadline", "3s", "--log.level", "notice") { running, server in
        let ledger = Ledger()
        for phone in try await stage.phones(10, at: server) { ledger.add(phone) }
        try await withThrowingTaskGroup(of: Void.self) { group in
          for _ in 0..<2 {
            group.addTask {
              while !Task.isCancelled { ledger.add(try await server.mark(ledger.phones(3))) }
            }
          }
          try await promises(5, ledger)

          // Broken files: what was loaded goes on, and the fault is named.
          try stage.place.write("Keys/apns/simulator.json", "{")
          running.send(SIGHUP)
          try await check(running, "keys", is: ["failing"])
          let before = stage.simulator.counts.apns
          await eventually("pushes under the old key") { stage.simulator.counts.apns > before + 5 }
          try stage.place.write("Keys/apns/simulator.json", description)
          running.send(SIGHUP)
          try await check(running, "keys", is: ["ok"])

          // Keys of somebody else.
          try stage.place.write(p8, P256.Signing.PrivateKey().pemRepresentation)
          try stage.place.write(
            "Keys/fcm/default.json",
            service.with("client_email", "somebody@else.iam.gserviceaccount.com").text)
          running.send(SIGHUP)
          try await check(running, "apns:simulator", is: ["failing", "open"])
          try await check(running, "fcm:default", is: ["failing", "open"])
          try await promises(5, ledger)

          try stage.place.write(p8, good)
          try stage.place.write("Keys/fcm/default.json", service.text)
          running.send(SIGHUP)
          try await check(running, "apns:simulator", is: ["ok"])
          try await check(running, "fcm:default", is: ["ok"])
          group.cancelAll()
          // No call has failed: it would be thrown here.
          do { try await group.waitForAll() } catch is CancellationError {}
        }
        #expect(ledger.now.deletions == 0)
        await stage.expectArrival(of: ledger.now.marks)
        let last = try await server.mark(ledger.now.phones)
        #expect(last.sent == 10 && last.deleted.isEmpty)
      }
    }

    /// A sandbox key at the production host, another app's topic, another Firebase project: the
    /// provider calls every token bad.
    @Test(arguments: [
      ("BadDeviceToken", "SENDER_ID_MISMATCH"), ("DeviceTokenNotForTopic", "SENDER_ID_MISMATCH"),
    ]) func `A route that calls every token bad kills none`(_ apns: String, _ fcm: String) async throws {
      try await stage.serve { running, server in
        let phones = try await stage.phones(60, at: server)
        for phone in phones {
          let rule =
            phone.kind == .apns
            ? TokenRule(status: 400, reason: apns) : TokenRule(status: 403, reason: fcm)
          stage.simulator.setToken(phone.token, rule)
        }
        for _ in 0..<3 {
          let refused = try await server.mark(phones)
          #expect(refused.sent == 0 && refused.deleted.isEmpty)
        }
        try await check(running, "apns:simulator", is: ["failing"], reason: apns)
        try await check(running, "fcm:default", is: ["failing"])
        for phone in phones { stage.simulator.setToken(phone.token, nil) }
        let taken = try await server.mark(phones)
        #expect(taken.sent == 60 && taken.deleted.isEmpty)
        try await check(running, "apns:simulator", is: ["ok"])
      }
    }

    /// Waits for `count` more promises.
    private func promises(_ count: Int, _ ledger: Ledger) async throws {
      let before = ledger.now.marks.count
      await eventually("promises") { ledger.now.marks.count >= before + count }
    }

    /// Waits until `/readyz` tells so of a check, with a meaning if it is a fault.
    private func check(
      _ running: Running, _ name: String, is states: [String], reason: String? = nil,
      sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
      var last = JSON.null
      try await eventually("\(name) \(states)", sourceLocation: sourceLocation) {
        last = try await running.check(name)
        return states.contains(last["status"]?.string ?? "")
      }
      guard states != ["ok"] else { return }
      let meaning = last["meaning"]?.string ?? ""
      #expect(!meaning.isEmpty, "\(last.text)", sourceLocation: sourceLocation)
      if let reason { #expect(last["reason"]?.string == reason, sourceLocation: sourceLocation) }
    }
  }
}

extension JSON {
  /// The object with one member replaced.
  fileprivate func with(_ name: String, _ value: JSON) -> JSON {
    guard case .object(var object) = self else { return self }
    object[name] = value
    return .object(object)
  }
}
