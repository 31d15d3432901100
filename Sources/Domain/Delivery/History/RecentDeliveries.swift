package import Foundation
package import Providers
package import Registrations
import Synchronization

/// A notification that its provider has accepted, with the time that each stage took.
package struct AcceptedDelivery: Sendable, Hashable {
  package let registration: RegistrationReference
  package let provider: Route.Provider
  /// The time at which the service received it.
  package let takenAt: Date
  /// Seconds until it was handed to delivery, with the request read and its registrations looked up; nil if it came from
  /// the outbox.
  package let request: TimeInterval?
  /// Seconds from then until it was sent to its provider.
  package let queue: TimeInterval
  /// Seconds from then until the provider accepted it.
  package let answer: TimeInterval
}

/// The latest accepted notifications of this process, in memory, without their contents and recipients.
package final class RecentDeliveries: Sendable {
  /// Number of deliveries that are kept.
  static let limit = 1000

  private struct State {
    var deliveries: [AcceptedDelivery] = []
    /// The index that the next one takes once all places are used.
    var next = 0
  }

  private let state = Mutex(State())

  func add(_ delivery: AcceptedDelivery) {
    state.withLock { state in
      if state.deliveries.count < Self.limit {
        state.deliveries.append(delivery)
      } else {
        state.deliveries[state.next] = delivery
        state.next = (state.next + 1) % Self.limit
      }
    }
  }

  /// The deliveries to some registrations, by their row ids, the oldest first.
  package func deliveries(to registrations: Set<Int64>) -> [AcceptedDelivery] {
    state.withLock { state in
      (state.deliveries[state.next...] + state.deliveries[..<state.next])
        .filter { registrations.contains($0.registration.id) }
    }
  }
}

/// The times at which a notification reached the stages before its provider's answer.
struct DeliveryStart: Sendable {
  /// The time at which the notification was requested or, from the outbox, the try began.
  let began: Date
  let takenAt: Date
  /// The time at which it was handed to delivery; nil if it comes from the outbox.
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
