package import Foundation
import NIOCore

/// A route as one loading of its credential made it: a key that has changed makes another sender of the same route.
/// What a route has proven belongs to the sender that it was proven with, so that an answer to a request of an older
/// key teaches nothing about the present one.
package struct RouteSender: Sendable {
  /// Tells senders apart; never used again.
  package typealias ID = UUID

  /// Whose route it is.
  package let route: Route
  /// Its identity.
  package let id = ID()
  let health = RouteHealth()
  private let sender: Senders.Sender

  init(_ route: Route, _ sender: Senders.Sender) {
    self.route = route
    self.sender = sender
  }

  /// How it fares.
  package var state: PushProviders.RouteState { health.state }

  /// Sends the push, and takes what becomes of it, or does not in time, into account.
  func attempt(
    _ push: Push, started: NIODeadline, deadline: NIODeadline, isProbe: Bool,
    now: @escaping @Sendable () -> Date
  ) async -> Attempt<Outcome> {
    @Sendable func ended(_ outcome: Outcome) -> Outcome {
      health.record(outcome, after: .now() - started, isProbe: isProbe, now: now())
      return outcome
    }
    switch await send(push, deadline: deadline) {
    case .ended(let outcome):
      if outcome.reason == .timeout { health.waitedInVain(from: started, now: now()) }
      return .ended(ended(outcome))
    case .underWay(let answer):
      health.waitedInVain(from: started, now: now())
      return .underWay { ended(await answer()) }
    }
  }

  private func send(_ push: Push, deadline: NIODeadline) async -> Attempt<Outcome> {
    switch (sender, push) {
    case (.apns(let sender), .apns(let notification)):
      await sender.send(notification, topic: route.target, deadline: deadline)
    case (.fcm(let sender), .fcm(let message)):
      await sender.send(message, deadline: deadline)
    case (.apns, .fcm), (.fcm, .apns):
      .ended(.misconfigured(.unconfigured))
    }
  }
}
