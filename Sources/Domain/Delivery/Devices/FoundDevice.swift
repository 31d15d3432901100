package import Foundation
package import HTTP
import HTTPClient
package import Providers
package import Registrations
import SQL
package import Sealing

/// A registration, with everything that shows whether its device gets notifications: for people as ``facts``, for
/// programs as ``members(for:)``.
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

    package var meaning: String { Explanation.of(reason).meaning }
  }

  package let wire: Wire
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
  /// The chat server; nil for devices of Nextcloud and of the Web Push gateway.
  package let server: Origin?
  /// The realm; nil where there is no chat server, and for legacy registrations whose realm is not known yet.
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
  package var name: String { "\(wire):\(id)" }
}

extension FoundDevice {
  private static let entries = "FROM outbox o WHERE o.registration_id = g.id"
  private static let next = "\(entries) ORDER BY o.due_at, o.id LIMIT 1"

  /// SQL that reads registrations `g`, up to the condition: the columns for ``init(_:_:)``.
  static let select = """
    SELECT g.id, g.kind, COALESCE(g.app, CASE WHEN g.wire IN (\(Wire.zulip)) THEN g.target END) AS app, g.registered_at,
      g.delivered_at, g.failure, g.failed_at, (SELECT COUNT(*) \(entries)) AS waiting,
      (SELECT MIN(o.created_at) \(entries)) AS waiting_since, (SELECT o.reason \(next)) AS wait_reason,
      (SELECT o.due_at \(next)) AS waiting_until, g.dead_reason, g.dead_since, s.uuid AS server_uuid, s.hostname,
      s.deactivated_at AS server_deactivated_at, r.uuid AS realm_uuid, r.host,
      r.is_deactivated AS realm_is_deactivated, g.wire, g.target, g.token, g.realm_id, g.token_id, g.server_id,
      g.user_id, g.user_uuid, g.device_identifier, g.user_key, g.account_id, g.endpoint_hash, k.public_key,
      g.ended_at, u.username, g.elsewhere, g.environment, g.token_changed_at
    FROM registrations g LEFT JOIN remote_realms r ON r.id = g.realm_id
      LEFT JOIN remote_servers s ON s.id = COALESCE(g.server_id, r.server_id)
      LEFT JOIN bouncer_keys k ON k.id = g.bouncer_key_id LEFT JOIN users u ON u.id = g.account_id
    """

  /// Returns nil for an unknown kind of registration.
  init?(_ row: Row, _ storageKey: StorageKey) throws {
    guard let wire = Wire(rawValue: try row.int64("wire")) else { return nil }
    func place(uuid: String, host: String, _ isDeactivated: Bool) throws -> Origin? {
      guard let uuid = try row.optionalText(uuid), let host = try row.optionalText(host) else { return nil }
      return Origin(uuid: uuid, host: host, isDeactivated: isDeactivated)
    }
    func failure(_ reason: String, at: String) throws -> Failure? {
      guard let reason = try row.optionalText(reason), let at = try row.optionalDate(at) else { return nil }
      return Failure(reason: reason, at: at)
    }
    let tokenPlace = SealedPlace.token(
      realm: wire == .e2ee ? try row.value("realm_id") : .null, tokenID: try row.value("token_id"),
      server: try row.value("server_id"), user: try row.value("user_id"), uuid: try row.value("user_uuid"),
      identifier: try row.value("device_identifier"), userKey: try row.value("user_key"),
      account: try row.value("account_id"), endpoint: try row.value("endpoint_hash"))
    // The first of Talk's two tokens is the one for notifications.
    let token = try row.optionalBytes("token").flatMap { storageKey.openText($0, at: tokenPlace) }.map {
      text in
      wire == .nextcloud ? String(text.prefix { $0 != " " }) : text
    }
    let path = DeliveryPath(try row.int64("kind"), token, isElsewhere: try row.value("elsewhere") != .null)
    let tokenID =
      try row.optionalInt64("token_id").map(TokenID.init(storage:))
      ?? (wire == .legacy ? token.map(TokenID.init(token:)) : nil)
    let user =
      try row.optionalText("user_uuid") ?? row.optionalInt64("user_id").map(String.init)
      ?? row.optionalText("username")
    self.init(
      wire: wire, id: try row.int64("id"), provider: path.provider, app: try row.optionalText("app"),
      target: wire == .nextcloud ? try row.optionalText("target") : path.target,
      environment: .init(storage: try row.optionalInt64("environment")), tokenID: tokenID,
      fingerprint: wire == .e2ee ? tokenID?.fingerprint : token.map { PushToken.fingerprint(of: $0) },
      isInstallationID: path.provider == Route.Provider.fcm.rawValue
        ? token.map(FCMMessage.isInstallationID) : nil,
      tokenChangedAt: try row.optionalDate("token_changed_at"),
      bouncerKey: try row.optionalText("public_key"),
      server: try place(
        uuid: "server_uuid", host: "hostname", try row.value("server_deactivated_at") != .null),
      realm: try place(
        uuid: "realm_uuid", host: "host",
        try row.optionalInt64("realm_is_deactivated").map { $0 != 0 } ?? false),
      user: user,
      identifier: try row.optionalBytes("device_identifier").map { Base64.encode($0) },
      registeredAt: try row.date("registered_at"), endedAt: try row.optionalDate("ended_at"),
      deliveredAt: try row.optionalDate("delivered_at"), failure: try failure("failure", at: "failed_at"),
      held: try failure("dead_reason", at: "dead_since"), waiting: try row.int64("waiting"),
      waitingSince: try row.optionalDate("waiting_since"), waitReason: try row.optionalText("wait_reason"),
      waitingUntil: try row.optionalDate("waiting_until"))
  }
}

extension FoundDevice {
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
}

extension FoundDevice {
  /// What `device show` and `push/status` say of it.
  package static func members(for reader: Explanation.Reader) -> [JSONMember<FoundDevice>] {
    [
      .member("name", "its name at the bouncer, such as `e2ee:12`") { $0.name },
      .member("kind", "kind of registration") { $0.wire }, .member("state") { $0.state },
      .member("advice", "what the state means and what to do, in sentences") { $0.advice(for: reader) },
      .member("provider", .oneOf(Route.Provider.allCases.map(\.rawValue) + ["pushkit", "unknown"])) {
        .string($0.provider)
      },
      .object("realm", "null without a chat server, and while the realm is not known", orNull: realmMembers) {
        $0.realm
      },
      .member("user", "of old apps, a number or a UUID; of Nextcloud's Web Push subscriptions, the user name")
      {
        $0.user
      },
      .member("app", "the bundle id, or the Nextcloud app") { $0.app },
      .member("target", "a topic or project that is not the default; the push service, for Web Push") {
        $0.target
      },
      .member("environment", "of Apple's, which has taken the token, where that had to be found out") {
        $0.environment
      },
      .member("token_id", "8 bytes in base64, as in `zerver_device`") { $0.tokenID?.base64 },
      .member("token_fingerprint", "8 hex digits, as in the log of the bouncer") { $0.fingerprint },
      .member("fcm_token_form", "of FCM's tokens: a registration token, or a Firebase installation id") {
        $0.isInstallationID.map { $0 ? TokenForm.installationID : .registrationToken }
      },
      .member("token_changed_at", "when the token took the place of another one, of Nextcloud's devices") {
        $0.tokenChangedAt
      },
      .member("bouncer_key", "the bouncer key that the registration was sealed to, in base64") {
        $0.bouncerKey
      },
      .object("server", "null without a chat server", orNull: ServerName.members) {
        $0.server.map { ServerName(orgID: $0.uuid, hostname: $0.host, isDeactivated: $0.isDeactivated) }
      },
      .member("device_identifier", "of Nextcloud's devices: 64 bytes in base64") { $0.identifier },
      .member("registered_at", "when it was last registered") { $0.registeredAt },
      .member("ended_at") { $0.endedAt },
      .member(
        "last_success_at", "when a provider last took a notification for it: the first of that day"
      ) { $0.deliveredAt },
      .object(
        "last_failure", "the last refusal, or notification given up, since it was registered",
        orNull: Explained.members(at: "at")
      ) { $0.explained($0.failure, for: reader) },
      .object(
        "held_deletion", "the same for a provider that has called the token dead and is not believed yet",
        orNull: Explained.members(at: "at")
      ) { $0.explained($0.held, for: reader) },
      .member("waiting", "notifications that wait for it") { $0.waiting },
      .member("waiting_since", "when the oldest of these came") { $0.waitingSince },
      .object(
        "waiting_for", "why the one that is due first waits, and until when it is not tried again",
        orNull: Explained.members(at: "until")
      ) { device in
        device.waitReason.map {
          Explained(reason: $0, explanation: .of($0, to: reader), time: device.waitingUntil)
        }
      },
    ]
  }

  private static var realmMembers: [JSONMember<Origin>] {
    [.member("uuid") { $0.uuid }, .member("host") { $0.host }, .member("deactivated") { $0.isDeactivated }]
  }

  private enum TokenForm: String, CaseIterable, JSONRepresentable {
    case registrationToken = "registration_token"
    case installationID = "installation_id"
  }

  private func explained(_ failure: Failure?, for reader: Explanation.Reader) -> Explained? {
    failure.map {
      Explained(reason: $0.reason, explanation: explanation(of: $0, for: reader), time: $0.at)
    }
  }
}

extension FoundDevice.State: JSONRepresentable {}
extension APNsCredential.Environment: JSONRepresentable {}

/// A reason with a time.
private struct Explained {
  let reason: String
  let explanation: Explanation
  let time: Date?

  /// - Parameter name: what the time is called.
  static func members(at name: String) -> [JSONMember<Explained>] {
    [
      .member("reason", "as in [Reasons](Reasons.md)") { $0.reason }, .member(name, .time) { .time($0.time) },
      .member("meaning", "what it means, in sentences") { $0.explanation.meaning },
      .member("advice", "what to do, in sentences") { $0.explanation.advice },
    ]
  }
}

/// The service that delivers to a device, and the target there. Of a Web Push endpoint only the host is kept.
private struct DeliveryPath {
  var provider: String
  var target: String?

  /// - Parameter kind: the stored number of the token's kind.
  init(_ kind: Int64, _ token: String?, isElsewhere: Bool) {
    let kind = isElsewhere ? .elsewhere : TokenKind(rawValue: kind)
    switch kind {
    case .apns, .elsewhere: provider = kind?.provider.rawValue ?? ""
    case .pushKit: provider = "pushkit"
    case .fcm:
      let token = token.flatMap { try? PushToken($0, kind: .fcm) }
      provider = (token?.provider ?? .fcm).rawValue
      target = token?.host
    case nil: provider = "unknown"
    }
  }
}

extension TokenID {
  /// The fingerprint in the log: the first half of the token's id.
  var fingerprint: String {
    let digits = String(UInt64(bitPattern: storage) >> 32, radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
  }
}
