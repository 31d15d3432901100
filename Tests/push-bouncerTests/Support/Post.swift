import Foundation
import ProviderSimulator
import Sealing
import Synchronization
import Wire

@testable import Demo

/// What a chat server sends to phones of its own, and how long each notification takes from the call to its arrival at
/// the phone's provider, whether within the call or from the outbox.
final class Post: Sendable {
  /// Notifications that were sent, and how long those took that have arrived.
  struct Delays {
    var sent = 0
    var arrived: [Duration] = []

    /// Of a hundred that were sent, 99 took no longer; nil: more than that have not arrived.
    var p99: Duration? {
      let index = max(0, (sent * 99 + 99) / 100 - 1)
      let sorted = arrived.sorted()
      return sorted.indices.contains(index) ? sorted[index] : nil
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
  private let server: ChatServer
  private let phones: [VirtualPhone]
  private let state = Mutex(State())

  init(_ stage: Stage, _ server: ChatServer, to phones: [VirtualPhone]) {
    (simulator, self.server, self.phones) = (stage.simulator, server, phones)
  }

  /// What calls met that were not answered 200.
  var lost: [String] { state.withLock(\.lost) }

  /// How many have arrived a second time.
  var twice: Int { state.withLock(\.twice) }

  /// Sends each phone in turn a notification, each in a call of its own at its time, whatever becomes of those before.
  func send(_ count: Int, every pause: Duration) async {
    await withTaskGroup(of: Void.self) { group in
      for index in 0..<count {
        group.addTask { await self.send(to: self.phones[index % self.phones.count]) }
        try? await Task.sleep(for: pause)
      }
    }
  }

  private func send(to phone: VirtualPhone) async {
    let mark = Base64.encode(Array(UUID().uuidString.utf8))
    state.withLock { $0.sent[mark] = Date() }
    do {
      _ = try await server.notify([phone], encrypted: [mark])
    } catch {
      state.withLock { $0.lost.append("\(error)") }
    }
  }

  /// Waits until everything that was sent since the last time has arrived, or the time is up.
  func delays(within limit: Duration) async -> Delays {
    let end = ContinuousClock.now + limit
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
        guard let mark = self.mark(of: delivery), let sent = state.sent[mark] else { continue }
        if state.arrived[mark] != nil {
          state.twice += 1
        } else {
          state.arrived[mark] = .seconds(delivery.receivedAt.timeIntervalSince(sent))
        }
      }
      return state.arrived.count == state.sent.count
    }
  }

  private func mark(of delivery: Delivery) -> String? {
    guard delivery.provider == .webPush else { return Stage.mark(of: delivery) }
    let subscription = phones.lazy.flatMap(\.subscriptions).first { $0.id == delivery.token }
    guard let opened = subscription?.open(delivery.payload) else { return nil }
    return (try? JSON.parse(opened))?["encrypted_data"]?.string
  }
}
