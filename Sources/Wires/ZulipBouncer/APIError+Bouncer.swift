import Basics
import Foundation
import HTTP
import HTTPClient
import HTTPTypes
import Registrations
import SQL
import Sealing

/// Refusals used in more than one place, with Zulip's texts (`Documentation/Protocols/Zulip.md`).
extension APIError {
  static let deactivated = APIError.unauthorized(deactivatedText)
  /// ``deactivated`` for a server that registers or proves its hostname.
  static let registrationDeactivated = APIError(
    .unauthorized, code: "REALM_DEACTIVATED", deactivatedText,
    headers: [.wwwAuthenticate: "Basic realm=\"zulip\""])
  /// A server that shows a key that was replaced minutes ago would change its registration.
  static let replacedKey = APIError(
    .forbidden, code: "KEY_REPLACED",
    """
    This key was replaced within the last ten minutes, and can change nothing about its server any more. Use the new \
    one. If it is lost, or somebody else made it, run: manage.py register_server --registration-transfer
    """)
  static let missingRealm = APIError(.forbidden, code: Code.missingRealm, "Organization not registered")
  /// ``missingRealm`` for a device's registration, which then comes again after the server's next report: after the plain
  /// error a stock server would leave the device pending for ever. `cause` is for this program's own servers.
  static let awaitedRealm = APIError(
    .tooManyRequests, code: "RATE_LIMIT_HIT", missingRealm.message,
    fields: [.init("retry-after", 60), .init("cause", .string(Code.missingRealm))],
    headers: [.retryAfter: "60"])
  static let invalidRegistration = APIError("Invalid encrypted_push_registration")
  static let unservedTest = APIError(
    "No credential of the push notification service serves the app of this device")
  static let noRegistration = APIError("Registration not found for this hostname")

  static func invalid(_ name: String) -> APIError { APIError("Invalid \(name)") }
  static func missingParameter(_ name: String) -> APIError { APIError("Missing \(name)") }
  static func wrongKey(_ role: String) -> APIError { .unauthorized(wrongKeyText(role)) }
  static func unknownServer(_ role: String) -> APIError {
    .unauthorized(
      "Zulip server auth failure: \(role) is not registered -- did you run `manage.py register_server`?")
  }

  private static let deactivatedText =
    "The mobile push notification service registration for your server has been deactivated"

  private static func wrongKeyText(_ role: String) -> String {
    "Zulip server auth failure: key does not match role \(role)"
  }

  static func anothersRealm(_ realm: UUID) -> APIError {
    APIError(
      .forbidden, code: Code.anothersRealm,
      "Your organization is registered to a different Zulip server. \(gettingBack(realm))")
  }

  static func duplicateRealm(_ realm: UUID) -> APIError {
    APIError(
      """
      Duplicate registration detected. Organization \(realm.canonical) is registered already. \
      \(gettingBack(realm))
      """)
  }

  private static func gettingBack(_ realm: UUID) -> String {
    """
    If that is this server under another hostname, run: manage.py register_server --registration-transfer. \
    If not, the operator of this push notification service can let it go: \
    push-bouncer server release-realm \(realm.canonical)
    """
  }

  init(_ fault: Hostname.Malformed, hostname text: String) {
    switch fault {
    case .components: self.init("\(text) contains invalid components (e.g., path, query, fragment).")
    case .invalid: self.init("\(text) is not a valid hostname")
    case .notASCII: self.init("\(text) is not a valid hostname: expected the ASCII spelling (xn--...)")
    }
  }

  /// - Parameter hostname: the hostname in the server's spelling.
  init(_ refusal: RemoteServers.RegistrationError, role: String, hostname: String) {
    switch refusal {
    case .wrongKey, .alreadyThere:
      self.init(
        code: "INVALID_ZULIP_SERVER", Self.wrongKeyText(role), fields: [.init("role", .string(role))])
    case .deactivated:
      self = .registrationDeactivated
    case .replacedKey:
      self = .replacedKey
    case .hostnameTaken:
      self.init(
        code: "HOSTNAME_ALREADY_IN_USE_BOUNCER_ERROR", "A server with hostname \(hostname) already exists",
        fields: [.init("hostname", .string(hostname))])
    case .unprovenHostname:
      self.init(
        .forbidden, code: "HOSTNAME_NOT_VERIFIED",
        """
        This push notification service wants a server to show that \(hostname) is its own. Run: \
        manage.py register_server --registration-transfer
        """)
    case .closed:
      self.init(
        .forbidden, code: "SERVER_REGISTRATION_CLOSED",
        """
        This push notification service does not accept new servers by itself. Its operator can add yours \
        with: push-bouncer server add --hostname \(hostname)
        """)
    }
  }
}
