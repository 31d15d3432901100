package import Foundation
package import Registrations
package import Sealing

/// A registration with all that tells whether its device gets notifications.
package struct FoundDevice: Sendable, Hashable {
  /// A chat server or realm that it belongs to.
  package struct Place: Sendable, Hashable {
    package let uuid: String
    package let host: String
    /// It has been switched off, or has deactivated itself.
    package let isDeactivated: Bool
  }

  package struct Failure: Sendable, Hashable {
    /// The provider's name for it, or ours.
    package let reason: String
    package let at: Date
  }

  package let kind: RegistrationReference.Kind
  /// Its row.
  package let id: Int64
  /// Whose service it is reached by: `apns`, `fcm`, `pushkit`, `webpush`.
  package let provider: String
  /// The app's bundle id (APNs), or Nextcloud's app; nil if it was not told.
  package let app: String?
  /// The topic or project of a Nextcloud device, if it is not the default one; of Web Push the push service.
  package let target: String?
  /// What stands for its token in chat servers' databases; nil of Nextcloud's devices, and if the token does not open.
  package let tokenID: TokenID?
  /// What stands for its token in logs; nil if the token does not open.
  package let fingerprint: String?
  /// The bouncer key that it was sealed to, in base64; nil: it is not encrypted, or was imported.
  package let bouncerKey: String?
  /// nil of Nextcloud's devices.
  package let server: Place?
  /// nil of Nextcloud's devices, and of old apps whose realm is not known yet.
  package let realm: Place?
  /// The user of an old app: a number or a UUID.
  package let user: String?
  /// Of a Nextcloud device, in base64.
  package let identifier: String?
  /// When it was last registered.
  package let registeredAt: Date
  package let endedAt: Date?
  /// The last success, to the day.
  package let deliveredAt: Date?
  /// The last failure since it was last registered.
  package let failure: Failure?
  /// What the provider says of it and is not believed yet.
  package let held: Failure?
  /// Notifications that wait for it.
  package let waiting: Int64
  /// When the oldest of those came.
  package let waitingSince: Date?

  /// What the operator calls it: `e2ee:12`.
  package var name: String { "\(kind):\(id)" }

  /// How it fares, from the worst to the best.
  package enum State: String, Sendable {
    /// A provider has said that the token is dead.
    case ended
    /// Its server or realm may send nothing.
    case switchedOff = "switched off"
    /// Its last notification was refused.
    case failing
    /// Notifications wait for it.
    case waiting
    /// Nothing has been sent to it yet.
    case unused
    /// It gets its notifications.
    case working
  }

  package var state: State {
    if endedAt != nil { return .ended }
    if server?.isDeactivated == true || realm?.isDeactivated == true { return .switchedOff }
    // The last success is only known to the day, but one after a failure is written at once.
    if let failure, deliveredAt.map({ $0 <= failure.at }) ?? true { return .failing }
    if held != nil { return .failing }
    if waiting > 0 { return .waiting }
    return deliveredAt == nil ? .unused : .working
  }

  /// What is known of it, for people: a name for each fact, in small letters.
  package var facts: [(name: String, fact: Fact)] {
    let all: [(name: String, fact: Fact?)] = [
      ("server", server.map(Fact.server)), ("realm", realm.map { .text($0.host, code: $0.uuid) }),
      ("user", user.map { .text($0) }),
      ("app", .text("\(app ?? "not told") (\(provider)\(target.map { " to \($0)" } ?? ""))")),
      ("token id", tokenID.map { .text("", code: $0.base64) }),
      ("token in the log", fingerprint.map { .text("", code: $0) }),
      ("device identifier", identifier.map { .text("", code: $0) }),
      ("bouncer key", bouncerKey.map { .text("", code: $0) }),
      ("registered", .time(registeredAt)), ("ended", endedAt.map { .time($0) }),
      ("last success", .time(deliveredAt, note: " (the first of that day)")),
      ("last failure", failure.map(Fact.failure)), ("called dead, not believed yet", held.map(Fact.failure)),
      ("waiting", .waiting(waiting, since: waitingSince)),
    ]
    return all.compactMap { name, fact in fact.map { (name, $0) } }
  }

  package enum Fact {
    case server(Place)
    /// A text, and what is copied rather than read.
    case text(String, code: String = "")
    /// nil: never.
    case time(Date?, note: String = "")
    case failure(Failure)
    case waiting(Int64, since: Date?)
  }

  /// What that means and what to do about it, in plain sentences.
  package var advice: String {
    switch state {
    case .ended:
      let explanation = failure.map { Explanation.of($0.reason) }
      return """
        The registration has ended: nothing is sent to it. \(explanation.map { "\($0.meaning) " } ?? "")The app \
        registers again when it is opened; if it does not, log out and in again in the app.
        """
    case .switchedOff:
      return """
        Its \(server?.isDeactivated == true ? "chat server" : "realm") is deactivated: nothing is sent to it. See \
        "push-bouncer server show".
        """
    case .failing:
      let explanation = (failure ?? held).map { Explanation.of($0.reason) }
      return explanation.map { "\($0.meaning) \($0.advice)" } ?? ""
    case .waiting:
      return """
        Notifications wait for the provider and are sent as soon as it takes them. See "push-bouncer routes list" \
        for what is wrong with it.
        """
    case .unused:
      return """
        It is registered, and nothing has been sent to it \(kind == .nextcloud ? "" : "by its chat server ")since. \
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
