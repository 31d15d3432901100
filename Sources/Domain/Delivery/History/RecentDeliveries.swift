package import Foundation
package import Providers
package import Registrations
import Synchronization

/// The way of a notification that its provider has accepted, and how long each leg took.
package struct AcceptedDelivery: Sendable, Hashable {
  package let registration: RegistrationReference
  package let provider: Route.Provider
  /// When the service took it.
  package let takenAt: Date
  /// Seconds from there until it was handed to delivery: the request was read, and its registrations were looked up. nil
  /// if it came from the outbox.
  package let request: TimeInterval?
  /// Seconds from there until it was sent to its provider.
  package let queue: TimeInterval
  /// Seconds from there until the provider accepted it.
  package let answer: TimeInterval
}

/// The latest accepted notifications of this process, in memory: what and to whom they were is not kept.
package final class RecentDeliveries: Sendable {
  /// How many are kept.
  static let limit = 1000

  private struct State {
    var deliveries: [AcceptedDelivery] = []
    /// Where the next one goes once all places are taken.
    var next = 0
  }

  private let state = Mutex(State())

  func note(_ delivery: AcceptedDelivery) {
    state.withLock { state in
      if state.deliveries.count < Self.limit {
        state.deliveries.append(delivery)
      } else {
        state.deliveries[state.next] = delivery
        state.next = (state.next + 1) % Self.limit
      }
    }
  }

  /// Those of some registrations, by their row ids, the oldest first.
  package func deliveries(to registrations: Set<Int64>) -> [AcceptedDelivery] {
    state.withLock { state in
      (state.deliveries[state.next...] + state.deliveries[..<state.next])
        .filter { registrations.contains($0.registration.id) }
    }
  }
}

/// When a notification reached the stages of its way, until its provider answers.
struct DeliveryStart: Sendable {
  /// When the notification was requested or, from the outbox, when the try began.
  let began: Date
  let takenAt: Date
  /// nil if it comes from the outbox.
  let handedOver: Date?
  let sent: Date

  func accepted(
    at now: Date, _ registration: RegistrationReference, by provider: Route.Provider
  ) -> AcceptedDelivery {
    AcceptedDelivery(
      registration: registration, provider: provider, takenAt: takenAt,
      request: handedOver.map { max(0, $0.timeIntervalSince(takenAt)) },
      queue: max(0, sent.timeIntervalSince(handedOver ?? takenAt)),
      answer: max(0, now.timeIntervalSince(sent)))
  }
}
