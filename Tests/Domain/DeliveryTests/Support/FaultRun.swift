import Foundation
import ProviderSimulator
import Providers
import Registrations
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import Delivery

/// Many notifications, half for APNs and half for FCM, handed over by many callers at once while
/// something goes wrong, and what has become of them in the end.
struct FaultRun {
  /// How long providers are down; `FAULT_SECONDS`.
  static let outageSeconds = Double(ProcessInfo.processInfo.environment["FAULT_SECONDS"] ?? "") ?? 6
  /// How many notifications; `FAULT_NOTIFICATIONS`.
  static let notifications = Int(ProcessInfo.processInfo.environment["FAULT_NOTIFICATIONS"] ?? "") ?? 1500
  private static let callers = 64
  private static let largestBatch = 20
  /// The most notifications that may be under way when connections fail.
  static let mostUnderWay = callers * largestBatch

  /// The result of a run.
  struct Account {
    /// Queued once at least, out of how many.
    var queued = 0
    /// Accepted more than once, by provider.
    var duplicates: [Route.Provider: Int] = [.apns: 0, .fcm: 0]
    /// How long it took in all.
    var seconds = 0.0
  }

  private final class Progress: Sendable {
    let next = Mutex(0)
    let queued = Mutex(0)
    let done = Mutex(0)
    let batches = Mutex(0)
  }

  /// Sends, with the faults of the test, and waits until all is done. Expects that each notification was
  /// accepted, that none went to a dead token and that what came twice came under one `apns-id`.
  ///
  /// - Parameters:
  ///   - name: for the line that is printed.
  ///   - during: runs beside the callers from the moment a third has been dealt with.
  ///   - afterwards: runs when everything has been handed over, before the outbox has to be empty.
  @discardableResult
  static func run(
    _ name: String, _ bench: DeliveryBench, count: Int = notifications,
    during: @escaping @Sendable () async throws -> Void = {},
    afterwards: @Sendable () async -> Void = {}
  ) async throws -> Account {
    let clock = ContinuousClock()
    let began = clock.now
    let devices = try await bench.devices(.apns, 50) + bench.devices(.fcm, 50)
    let dead = try await bench.devices(.apns, 2) + bench.devices(.fcm, 2)
    for device in dead {
      bench.simulator.setToken(device.token, TokenRule(status: device.kind == .apns ? 410 : 404))
    }
    let progress = Progress()
    let third = AsyncStream.makeStream(of: Void.self)
    try await withThrowingTaskGroup { group in
      group.addTask {
        for await _ in third.stream { break }
        try await during()
      }
      for _ in 0..<callers {
        group.addTask {
          while true {
            let range = progress.next.withLock { next in
              let range = next..<min(count, next + .random(in: 1...largestBatch))
              next = range.upperBound
              return range
            }
            guard !range.isEmpty else { return }
            var batch = range.map { bench.push("\($0)", to: devices[$0 % devices.count]) }
            let number = progress.batches.withLock { batches in
              batches += 1
              return batches
            }
            let isForDead = number.isMultiple(of: 3)
            if isForDead { batch.append(bench.push("dead", to: dead[number % dead.count])) }
            var results = try await bench.deliverer.deliver(batch)
            if isForDead { results.removeLast() }
            #expect(results.allSatisfy { $0 == .delivered || $0 == .queued })
            let late = results.count { $0 == .queued }
            progress.queued.withLock { $0 += late }
            let done = progress.done.withLock { done in
              done += range.count
              return done
            }
            if done >= count / 3 { third.continuation.yield() }
          }
        }
      }
      try await group.waitForAll()
    }
    await afterwards()
    // What Google may have is not sent again at once.
    try await eventually("what nobody has") {
      try await bench.number("SELECT COUNT(*) FROM outbox WHERE doubts = 0") == 0
    }
    bench.advance(70)
    try await bench.drained()
    var account = Account(queued: progress.queued.withLock { $0 })
    let accepted = bench.accepted()
    let missing = (0..<count).filter { accepted["\($0)"] == nil }
    #expect(missing.isEmpty, "\(missing.count) of \(count) were lost, such as \(missing.prefix(5))")
    #expect(accepted["dead"] == nil)
    for device in dead { #expect(try await !bench.lives(device)) }
    let ends = try await bench.recorder.living(devices.map(\.registration.id))
    #expect(ends.count == devices.count)
    for (name, ids) in accepted where ids.count > 1 {
      let isAPNs = Int(name).map { devices[$0 % devices.count].kind == .apns } ?? false
      account.duplicates[isAPNs ? .apns : .fcm, default: 0] += ids.count - 1
      if isAPNs { #expect(Set(ids).count == 1, "sent twice under different ids") }
    }
    account.seconds = (clock.now - began) / .seconds(1)
    print(
      "\(name): \(count) notifications, \(account.queued) by the outbox, duplicates "
        + "APNs \(account.duplicates[.apns] ?? 0) FCM \(account.duplicates[.fcm] ?? 0), "
        + "\(account.seconds.formatted(.number.precision(.fractionLength(1)))) s")
    return account
  }
}
