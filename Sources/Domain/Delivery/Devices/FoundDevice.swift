package import Foundation
package import Providers
package import Registrations
package import Sealing

/// A registration, with everything that shows whether its device gets notifications.
package struct FoundDevice: Sendable, Hashable {
  /// The chat server or the realm that a device belongs to.
  package struct Origin: Sendable, Hashable {
    package let uuid: String
    package let host: String
    /// Whether the operator has switched it off or it has deactivated itself.
    package let isDeactivated: Bool
  }

  /// A failed notification, or a deletion that is held back.
  package struct Failure: Sendable, Hashable {
    /// The provider's name for the reason, or this program's own.
    package let reason: String
    package let at: Date

    package var explanation: Explanation { explanation(for: .operator) }

    func explanation(for reader: Explanation.Reader) -> Explanation { .of(reason, to: reader) }
  }

  package let kind: RegistrationReference.Kind
  /// Its row id.
  package let id: Int64
  /// The service that delivers to the device: `apns`, `fcm`, `pushkit`, `webpush` or `upstream`.
  package let provider: String
  /// The app's bundle id (APNs) or the Nextcloud app; nil if unknown.
  package let app: String?
  /// The APNs topic or FCM project of a Nextcloud device, if it is not the default; for Web Push, the push
  /// service.
  package let target: String?
  /// The environment of APNs that has accepted the token, if both had to be asked.
  package let environment: APNsCredential.Environment?
  /// The token's id in chat servers' databases; nil for Nextcloud devices, and if the token cannot be
  /// decrypted.
  package let tokenID: TokenID?
  /// The token's fingerprint in the log; nil if the token cannot be decrypted.
  package let fingerprint: String?
  /// Whether the token is a Firebase installation id; nil if it is not FCM's, or cannot be decrypted.
  package let isInstallationID: Bool?
  /// When the token took the place of another one, if the registration has had another one.
  package let tokenChangedAt: Date?
  /// The bouncer key that the registration was encrypted to, in base64; nil for a legacy or an imported one.
  package let bouncerKey: String?
  /// The chat server; nil for Nextcloud devices.
  package let server: Origin?
  /// The realm; nil for Nextcloud devices, and for legacy registrations whose realm is not known yet.
  package let realm: Origin?
  /// The user of a legacy registration: a number or a UUID.
  package let user: String?
  /// The device identifier of a Nextcloud device, in base64.
  package let identifier: String?
  /// The time of its last registration.
  package let registeredAt: Date
  package let endedAt: Date?
  /// The first success on the last day that had one.
  package let deliveredAt: Date?
  /// The last failure since the last registration.
  package let failure: Failure?
  /// The reason of a deletion held back: the provider reports the token as dead and is not believed yet.
  package let held: Failure?
  /// Number of notifications that wait for it.
  package let waiting: Int64
  /// The time at which the oldest waiting notification arrived.
  package let waitingSince: Date?
  /// The reason why the waiting notification that is due first waits; nil if none waits.
  package let waitReason: String?
  /// The time at which that notification is tried again or, if it is being sent now, at which that try ends.
  package let waitingUntil: Date?

  /// The operator's name for it: `e2ee:12`.
  package var name: String { "\(kind):\(id)" }

  /// The device's state, from worst to best.
  package enum State: String, Sendable {
    /// The provider has reported the token as dead.
    case ended
    /// Its server or realm is deactivated.
    case switchedOff = "switched off"
    /// The last notification was refused or given up, or its deletion is held back.
    case failing
    /// Notifications wait for it, and nothing has failed.
    case waiting
    /// Nothing has been sent to it yet.
    case unused
    /// The last notification was delivered.
    case working
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

  /// Everything known about the device, each fact with a label in lower case.
  package var facts: [(name: String, fact: Fact)] {
    let all: [(name: String, fact: Fact?)] = [
      ("server", server.map(Fact.server)), ("realm", realm.map { .text($0.host, code: $0.uuid) }),
      ("user", user.map { .text($0) }),
      ("app", .text("\(app ?? "unknown") (\(provider)\(target.map { " to \($0)" } ?? ""))")),
      ("Apple environment", environment.map { .text($0.rawValue) }),
      ("token id", tokenID.map { .text("", code: $0.base64) }),
      ("token in the log", fingerprint.map { .text("", code: $0) }),
      (
        "kind of token",
        isInstallationID.map { .text($0 ? "Firebase installation id" : "registration token") }
      ),
      ("token changed", tokenChangedAt.map { .time($0) }),
      ("device identifier", identifier.map { .text("", code: $0) }),
      ("bouncer key", bouncerKey.map { .text("", code: $0) }),
      ("registered", .time(registeredAt)), ("ended", endedAt.map { .time($0) }),
      ("last success", .time(deliveredAt, note: " (the first of that day)")),
      ("last failure", failure.map(Fact.failure)), ("deletion held back", held.map(Fact.failure)),
      ("waiting", .waiting(waiting, since: waitingSince)),
      ("why it waits", waitReason.map { .text($0) }), ("next try", waitingUntil.map { .time($0) }),
    ]
    return all.compactMap { name, fact in fact.map { (name, $0) } }
  }

  /// A fact about a device.
  package enum Fact {
    case server(Origin)
    /// A text, and a value that people copy rather than read.
    case text(String, code: String = "")
    /// A time; nil means never.
    case time(Date?, note: String = "")
    case failure(Failure)
    case waiting(Int64, since: Date?)
  }

  /// An explanation of the state, and what to do about it, in sentences.
  package var advice: String { advice(for: .operator) }

  func advice(for reader: Explanation.Reader) -> String {
    switch state {
    case .ended:
      return """
        The registration has ended: nothing is sent to it. \(failure.map { "\($0.explanation(for: reader).meaning) " } ?? "")The app \
        registers again when it is opened; if it does not, log out and in again in the app.
        """
    case .switchedOff:
      return """
        Its \(server?.isDeactivated == true ? "chat server" : "realm") is deactivated: nothing is sent to it. \
        \(reader == .operator ? "\"push-bouncer server show\"" : Advice.theOperator) can say more.
        """
    case .failing:
      let explanation = (failure ?? held)?.explanation(for: reader)
      return explanation.map { "\($0.meaning) \($0.advice)" } ?? ""
    case .waiting:
      let explanation = waitReason.map { Explanation.of($0, to: reader) }
      return "Notifications wait. " + (explanation.map { "\($0.meaning) \($0.advice)" } ?? "")
    case .unused:
      return """
        It is registered, and nothing has been sent to it \(kind.isOpen ? "" : "by its chat server ")since. \
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
