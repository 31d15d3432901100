import Foundation
import HTTP
import ProviderSimulator
import Sealing
import Synchronization

@testable import Demo

/// What a server sends to phones of its own, and how long each notification takes from the call to its arrival at the
/// phone's provider, whether within the call or from the outbox.
final class Post: Sendable {
  /// Notifications that were sent, and how long those took that have arrived.
  struct Delays: CustomStringConvertible {
    var sent = 0
    var arrived: [Duration] = []

    var isComplete: Bool { arrived.count == sent }

    /// Of a hundred that were sent, 99 took no longer; nil: more than that have not arrived.
    var p99: Duration? {
      let index = max(0, (sent * 99 + 99) / 100 - 1)
      let sorted = arrived.sorted()
      return sorted.indices.contains(index) ? sorted[index] : nil
    }

    var description: String {
      let time = p99.map { "\($0.formatted(.units(allowed: [.seconds], fractionalPart: .show(length: 3))))" }
      return "\(arrived.count) of \(sent), p99 \(time ?? "never")"
    }
  }

  private struct State {
    /// By mark, when the call was made.
    var sent: [String: Date] = [:]
    /// By mark, how long it took.
    var arrived: [String: Duration] = [:]
    /// How many came again.
    var twice = 0
    /// The number of the last notification that was looked at.
    var last = 0
    var lost: [String] = []
  }

  private let simulator: SimulatedProviders
  private let read: @Sendable (Delivery) -> String?
  private let send: @Sendable (_ index: Int, _ mark: String) async throws -> Void
  private let state = Mutex(State())

  /// - Parameters:
  ///   - read: the mark of what has arrived, if it is one of these.
  ///   - send: sends the notification of that number, so marked.
  init(
    _ simulator: SimulatedProviders, read: @escaping @Sendable (Delivery) -> String?,
    send: @escaping @Sendable (_ index: Int, _ mark: String) async throws -> Void
  ) {
    (self.simulator, self.read, self.send) = (simulator, read, send)
  }

  /// What a chat server sends to each of its phones in turn.
  convenience init(_ stage: Stage, _ server: ChatServer, to phones: [VirtualPhone]) {
    self.init(stage.simulator) { delivery in
      guard delivery.provider == .webPush else { return Stage.mark(of: delivery) }
      let subscription = phones.lazy.flatMap(\.subscriptions).first { $0.id == delivery.token }
      guard let opened = subscription?.open(delivery.payload) else { return nil }
      return (try? JSON.parse(opened))?["encrypted_data"]?.string
    } send: { index, mark in
      _ = try await server.notify([phones[index % phones.count]], encrypted: [mark])
    }
  }

  /// What calls met that were not answered 200.
  var lost: [String] { state.withLock(\.lost) }

  /// How many have arrived a second time.
  var twice: Int { state.withLock(\.twice) }

  /// Sends so many, each in a call of its own at its time, whatever becomes of those before.
  func send(_ count: Int, every pause: Duration) async {
    // The simulator remembers so many deliveries, strangers' among them: they are read while they come.
    let reader = Task {
      while !Task.isCancelled {
        _ = isEverythingThere()
        try? await Task.sleep(for: .milliseconds(100))
      }
    }
    defer { reader.cancel() }
    await withTaskGroup(of: Void.self) { group in
      for index in 0..<count {
        group.addTask {
          let mark = Base64.encode(Array(UUID().uuidString.utf8))
          self.state.withLock { $0.sent[mark] = Date() }
          do {
            try await self.send(index, mark)
          } catch {
            self.state.withLock { $0.lost.append("\(error)") }
          }
        }
        try? await Task.sleep(for: pause)
      }
    }
  }

  /// Waits until everything that was sent since the last time has arrived, or the time is up.
  func delays(until end: ContinuousClock.Instant) async -> Delays {
    while ContinuousClock.now < end, !isEverythingThere() { try? await Task.sleep(for: .milliseconds(50)) }
    return state.withLock { state in
      defer { (state.sent, state.arrived) = ([:], [:]) }
      return Delays(sent: state.sent.count, arrived: Array(state.arrived.values))
    }
  }

  private func isEverythingThere() -> Bool {
    state.withLock { state in
      for delivery in simulator.deliveries(since: state.last) {
        state.last = delivery.sequence
        guard let mark = read(delivery), let sent = state.sent[mark] else { continue }
        if state.arrived[mark] != nil {
          state.twice += 1
        } else {
          state.arrived[mark] = .seconds(delivery.receivedAt.timeIntervalSince(sent))
        }
      }
      return state.arrived.count == state.sent.count
    }
  }
}
