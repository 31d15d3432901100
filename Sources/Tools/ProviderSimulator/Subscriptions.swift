import Foundation
import Providers
import Synchronization

/// The subscriptions, and which messages wait for each. The messages themselves are in the delivery log.
final class Subscriptions: Sendable {
  /// The most subscriptions, including ended ones, which are remembered.
  static let limit = 1_000_000
  /// The most messages that wait for a subscription. The oldest are dropped.
  static let waitingLimit = 100
  /// The shortest lifetime of a message, in seconds. Phones poll here, where real ones hold a connection
  /// open, so a message must not expire before the next poll.
  static let leastLife: TimeInterval = 10

  private struct Message {
    let sequence: Int
    let topic: String?
    let end: Date
  }

  private struct Subscription {
    /// The application server that may send (RFC 8292 4).
    let key: Data
    var hasEnded = false
    /// The last message that the phone has seen.
    var seen = 0
    var waiting: [Message] = []
  }

  private struct State {
    var subscriptions: [String: Subscription] = [:]
    /// One copy of each key, however many subscriptions share it.
    var keys: Set<Data> = []
  }

  private let state = Mutex(State())

  /// A new subscription's id; nil where there are too many.
  ///
  /// - Parameter likeGoogles: whether it is as long as one of Google's and has a colon.
  func add(key: Data, likeGoogles: Bool = false) -> String? {
    func random(_ count: Int) -> String {
      Base64URL.encode((0..<count).map { _ in .random(in: .min ... .max) })
    }
    let id = likeGoogles ? "\(random(8)):APA91b\(random(96))" : random(16)
    return state.withLock { state in
      guard state.subscriptions.count < Self.limit else { return nil }
      state.subscriptions[id] = Subscription(key: state.keys.insert(key).memberAfterInsert)
      return id
    }
  }

  /// Ends a subscription: from now on it is gone.
  func delete(_ id: String) throws(Refusal) {
    let isKnown = state.withLock { state in
      state.subscriptions[id]?.waiting = []
      state.subscriptions[id]?.hasEnded = true
      return state.subscriptions[id] != nil
    }
    guard isKnown else { throw .unknownSubscription }
  }

  /// The key whose holder may send to a living subscription.
  func key(of id: String) throws(Refusal) -> Data {
    guard let found = state.withLock({ state in state.subscriptions[id].map { ($0.key, $0.hasEnded) } })
    else {
      throw .unknownSubscription
    }
    guard !found.1 else { throw .endedSubscription }
    return found.0
  }

  /// Queues a message for the phone. It replaces an unseen one with the same topic.
  func deliver(_ sequence: Int, _ request: WebPushRequest, to id: String, now: Date) {
    let end = now.addingTimeInterval(max(Double(request.timeToLive), Self.leastLife))
    state.withLock { state in
      guard var subscription = state.subscriptions.removeValue(forKey: id) else { return }
      if let topic = request.topic {
        subscription.waiting.removeAll { $0.topic == topic && $0.sequence > subscription.seen }
      }
      if subscription.waiting.count >= Self.waitingLimit { subscription.waiting.removeFirst() }
      subscription.waiting.append(Message(sequence: sequence, topic: request.topic, end: end))
      state.subscriptions[id] = subscription
    }
  }

  /// Whether a message after `sequence` waits, or the subscription has ended.
  func hasNews(_ id: String, after sequence: Int) -> Bool {
    state.withLock { state in
      guard let subscription = state.subscriptions[id], !subscription.hasEnded else { return true }
      return subscription.waiting.last.map { $0.sequence > sequence } ?? false
    }
  }

  /// The messages after `sequence`, by their numbers; the phone has them now. It does not ask again for those up to
  /// `sequence`, which are forgotten.
  func messages(of id: String, after sequence: Int, now: Date) -> [Int] {
    state.withLock { state in
      guard var subscription = state.subscriptions.removeValue(forKey: id) else { return [] }
      subscription.waiting.removeAll { $0.end <= now || $0.sequence <= sequence }
      subscription.seen = subscription.waiting.last?.sequence ?? subscription.seen
      state.subscriptions[id] = subscription
      return subscription.waiting.map(\.sequence)
    }
  }
}
