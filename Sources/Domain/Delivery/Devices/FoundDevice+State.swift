import Foundation
import Providers
import Registrations

extension FoundDevice {
  /// The device's state, from worst to best.
  package enum State: String, Sendable, CaseIterable {
    /// The provider has reported the token as dead.
    case ended
    /// Its server or realm is deactivated.
    case switchedOff = "switched_off"
    /// The last notification was refused or given up, or its deletion is held back.
    case failing
    /// Notifications wait for it, and nothing has failed.
    case waiting
    /// Nothing has been sent to it yet.
    case unused
    /// The last notification was delivered.
    case working

    /// The name, for people.
    package var words: String { rawValue.replacing("_", with: " ") }
  }

  package var state: State {
    if endedAt != nil { return .ended }
    if server?.isDeactivated == true || realm?.isDeactivated == true { return .switchedOff }
    // Usually only a day's first success is written, but the first success after a failure always is.
    if let failure, deliveredAt.map({ $0 <= failure.at }) ?? true { return .failing }
    if held != nil { return .failing }
    if waiting > 0 { return .waiting }
    return deliveredAt == nil ? .unused : .working
  }

  /// What a failure means. A token that its provider calls dead has not ended a registration that is held or lives.
  func explanation(of failure: Failure, for reader: Explanation.Reader) -> Explanation {
    let usual = Explanation.of(failure.reason)
    guard endedAt == nil, Reason(rawValue: failure.reason)?.isOfDeadToken == true else {
      return usual.told(to: reader)
    }
    let advice = held == nil ? Advice.renewed : .heldDeletions()
    return usual.advising(advice).told(to: reader)
  }

  /// An explanation of the state, and what to do about it, in sentences.
  package var advice: String { advice(for: .operator) }

  func advice(for reader: Explanation.Reader) -> String {
    switch state {
    case .ended:
      return """
        The registration has ended: nothing is sent to it. \(failure.map { "\(explanation(of: $0, for: reader).meaning) " } ?? "")The app \
        registers again when it is opened; if it does not, log out and in again in the app.
        """
    case .switchedOff:
      return """
        Its \(server?.isDeactivated == true ? "chat server" : "realm") is deactivated: nothing is sent to it. \
        \(reader == .operator ? "\"push-bouncer server show\"" : Advice.theOperator) can say more.
        """
    case .failing:
      guard let failure = failure ?? held else { return "" }
      let told = explanation(of: failure, for: reader)
      return "\(told.meaning) \(told.advice)"
    case .waiting:
      let explanation = waitReason.map { Explanation.of($0, to: reader) }
      return "Notifications wait. " + (explanation.map { "\($0.meaning) \($0.advice)" } ?? "")
    case .unused:
      return """
        It is registered, and nothing has been sent to it \(wire.isOpen ? "" : "by its chat server ")since. \
        Send a test notification from the app; if nothing comes, look in the chat server's log, and whether the user \
        has notifications switched on.
        """
    case .working:
      return """
        The provider takes its notifications. If the phone shows none, look there: notifications may be off for the \
        app, or the phone saves power or is offline.
        """
    }
  }
}
