import Foundation
import NIOCore
import NIOHTTP1
import Providers
import Sealing
import Synchronization
import TestSupport

@testable import Demo

/// A chat server that waits 15 s and retries as a stock Zulip server does. A notification gets one try, and is lost with any
/// answer but 200. A registration gets four tries at once: if all fail without an answer or with 5xx, its
/// device stays pending forever. A 4xx is stored as an error, after which its phone may try again.
final class StockServer: Sendable {
  struct Record {
    /// Registered.
    var phones: [VirtualPhone] = []
    /// What was promised to phones, by the marks of ``ChatServer/mark(_:)``.
    var promised: Set<String> = []
    /// The failure of each lost notification.
    var lost: [String] = []
    /// The failures of each device that stays pending forever.
    var stranded: [String] = []
    /// Refusals after which a phone tried again.
    var errors = 0
    /// Registered phones that an answer called dead.
    var forgotten = 0
    /// The longest that an answer took.
    var longest = Duration.zero
  }

  private static let triesOfRegistration = 4
  private static let phonesPause = Duration.milliseconds(500)

  private let stage: Stage
  private let server: ChatServer
  private let record = Mutex(Record())

  init(_ stage: Stage, _ server: ChatServer) {
    var server = server
    server.bouncer.timeout = .seconds(15)
    self.stage = stage
    self.server = server
  }

  var now: Record { record.withLock { $0 } }

  /// Has a phone register, again and again while it may.
  func register(_ phone: VirtualPhone) async {
    while true {
      switch await attempt(phone) {
      case .registered: return record.withLock { $0.phones.append(phone) }
      case .pending(let why): return record.withLock { $0.stranded.append(why) }
      case .refused:
        record.withLock { $0.errors += 1 }
        try? await Task.sleep(for: Self.phonesPause)
      }
    }
  }

  private enum Attempt {
    case registered, refused
    case pending(String)
  }

  private func attempt(_ phone: VirtualPhone) async -> Attempt {
    var failure = ""
    for _ in 0..<Self.triesOfRegistration {
      do {
        try await timed { try await self.stage.register(phone, at: self.server) }
        return .registered
      } catch let refusal as JSONService.Refusal where (400..<500).contains(refusal.status.code) {
        return .refused
      } catch {
        failure = "\(error)"
      }
    }
    return .pending(failure)
  }

  /// Sends some of the registered phones a notification each.
  func notify(_ count: Int = 1) async {
    let phones = record.withLock { record in
      (0..<count).compactMap { _ in record.phones.randomElement() }
    }
    do {
      let promise = try await timed { try await self.server.mark(phones) }
      record.withLock {
        $0.promised.formUnion(promise.marks)
        $0.forgotten += promise.deleted.count
      }
    } catch {
      record.withLock { $0.lost.append("\(error)") }
    }
  }

  /// Sends notifications and brings in phones, one after the other whether or not the ones before have been
  /// answered, while `trouble` lasts; returns when the last is answered.
  func stream(
    every pause: Duration = .milliseconds(100), during trouble: () async throws -> Void
  ) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      let isOver = Over()
      group.addTask {
        await withTaskGroup(of: Void.self) { calls in
          var count = 0
          while !isOver.value {
            count += 1
            let isRegistration = count.isMultiple(of: 4)
            calls.addTask {
              if isRegistration {
                await self.register(Stage.phone(.random() ? .apns : .fcm))
              } else {
                await self.notify(.random(in: 1...2))
              }
            }
            try? await Task.sleep(for: pause)
          }
        }
      }
      defer { isOver.set() }
      try await trouble()
      isOver.set()
      try await group.waitForAll()
    }
  }

  private func timed<Result>(_ call: () async throws -> Result) async rethrows -> Result {
    let start = ContinuousClock.now
    defer { record.withLock { $0.longest = max($0.longest, .now - start) } }
    return try await call()
  }
}
