internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Registrations
internal import Sealing

/// All that the bouncer refuses with, in the words of Zulip's (`Documentation/Protocols/Zulip.md`). What both sides of
/// the wire say stands in `Wire`.
extension APIError {
  // Who calls.

  static var wrongKindOfKey: APIError { APIError("Must validate with valid Zulip server API key") }
  static var deactivated: APIError { .unauthorized(deactivatedText) }
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

  static var missingRealm: APIError {
    APIError(.forbidden, code: Code.missingRealm, "Organization not registered")
  }

  static func anothersRealm(_ realm: UUID) -> APIError {
    APIError(
      .forbidden, code: Code.anothersRealm,
      "Your organization is registered to a different Zulip server. \(gettingBack(realm))")
  }

  private static func gettingBack(_ realm: UUID) -> String {
    """
    If that is this server under another hostname, run: manage.py register_server --registration-transfer. \
    If not, the operator of this push notification service can let it go: \
    push-bouncer server release-realm \(realm.canonical)
    """
  }

  // What is wrong with a parameter.

  static func invalid(_ name: String) -> APIError { APIError("Invalid \(name)") }
  static func missingParameter(_ name: String) -> APIError { APIError("Missing \(name)") }
  static var invalidUUID: APIError { APIError("Invalid UUID") }

  // Devices and notifications.

  static var requestExpired: APIError { APIError(code: Code.requestExpired, "Request expired") }
  static var invalidPublicKey: APIError {
    APIError(code: Code.invalidPublicKey, "Invalid bouncer_public_key")
  }
  static var invalidRegistration: APIError { APIError("Invalid encrypted_push_registration") }
  static var invalidTokenType: APIError { APIError("Invalid token type") }

  static var unknownLegacyDevice: APIError {
    APIError(code: Code.unknownLegacyDevice, "Device not recognized by the push bouncer")
  }

  /// A legacy token that nothing can be sent to.
  static var invalidToken: APIError { APIError(PushToken.Malformed.length.description) }
  static var noWebPush: APIError {
    APIError(.notFound, "Web Push is switched off at this push notification service")
  }

  static func invalidGCMPriority(_ value: JSON) -> APIError {
    APIError("Invalid GCM option to bouncer: priority \(value.pythonRepresentation)")
  }

  static func invalidGCMOptions(_ options: JSON.Object) -> APIError {
    APIError("Invalid GCM options to bouncer: \(JSON.object(options).text)")
  }

  static func tooManyNotifications(retryAfter seconds: Int) -> APIError {
    .unavailable("Too many notifications are waiting already", retryAfter: seconds)
  }

  // Reports.

  static func duplicateRealm(_ realm: UUID) -> APIError {
    APIError(
      """
      Duplicate registration detected. Organization \(realm.canonical) is registered already. \
      \(gettingBack(realm))
      """)
  }

  init(_ refusal: Analytics.Refusal) {
    switch refusal {
    case .unknownProperty(let property): self.init("Invalid property \(property)")
    case .unknownEventType: self.init("Invalid event type.")
    case .outOfOrder: self.init("Data is out of order.")
    case .malformedAuditData: self.init("Malformed audit log data")
    }
  }

  // Registering a server.

  static var invalidEmail: APIError { APIError("Enter a valid email address.") }

  init(_ fault: Hostname.Malformed, hostname text: String) {
    switch fault {
    case .components: self.init("\(text) contains invalid components (e.g., path, query, fragment).")
    case .invalid: self.init("\(text) is not a valid hostname")
    case .notASCII: self.init("\(text) is not a valid hostname: it wants the ASCII spelling (xn--...)")
    }
  }

  init(
    _ refusal: RemoteServers.Refusal, of application: RemoteServers.Application, hostname: String
  ) {
    let role = application.uuid.canonical
    switch refusal {
    case .wrongKey, .alreadyThere:
      self.init(
        code: "INVALID_ZULIP_SERVER", Self.wrongKeyText(role), fields: [.init("role", .string(role))])
    case .deactivated:
      self.init(
        .unauthorized, code: "REALM_DEACTIVATED", Self.deactivatedText,
        headers: [.wwwAuthenticate: "Basic realm=\"zulip\""])
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

  // Showing that a hostname is one's own.

  static var noRegistration: APIError { APIError("Registration not found for this hostname") }
  static func notYetRegistered(_ name: String) -> APIError { APIError("\(name) not yet registered") }

  /// - Parameter limit: the refusal of the limit that was reached.
  static func tooManyChallenges(contact: String?, like limit: APIError) -> APIError {
    APIError(
      .tooManyRequests, code: limit.code,
      """
      The global limits on recent usage of this endpoint have been reached. Please try again later or \
      reach out to \(contact ?? "the operator of this service") for assistance.
      """, headers: limit.headers)
  }

  init(_ fault: VerificationSecrets.Invalid) {
    switch fault {
    case .malformed: self.init("The verification secret is malformed")
    case .invalid: self.init("The verification secret is invalid")
    case .expired: self.init("The verification secret has expired")
    case .otherHostname: self.init("The verification secret is for a different hostname")
    }
  }

  init(_ fault: HostVerifier.Failure) {
    switch fault {
    case .notPrepared: self.init("The host reported it has no verification secret.")
    case .status(let status): self.init("Error response received from the host: \(status)")
    case .tls: self.init("SSL error occurred while communicating with the host.")
    case .connection: self.init("Connection error occurred while communicating with the host.")
    case .timeout: self.init("The request timed out while communicating with the host.")
    case .other: self.init("An error occurred while communicating with the host.")
    }
  }
}

extension Field {
  /// Each element of an array, read.
  func map<Element>(_ read: (Field) throws(APIError) -> Element) throws(APIError) -> [Element] {
    let elements = try elements()
    var results: [Element] = []
    results.reserveCapacity(elements.count)
    for element in elements { results.append(try read(element)) }
    return results
  }

  /// The field, unless it is absent.
  var ifSent: Field? { value == nil ? nil : self }

  /// The field, unless it is null; that it is there is still to be found out.
  var nullable: Field? { value == .null ? nil : self }

  /// Seconds since 1970, in the years that a calendar has.
  func time() throws(APIError) -> Date {
    let seconds = try number()
    guard abs(seconds) < 253_402_300_800 else { throw error("is not a valid time") }
    return Date(timeIntervalSince1970: seconds)
  }

  /// A UUID of version 4.
  func uuid4() throws(APIError) -> UUID {
    guard let uuid = UUID(pythonText: try string()), uuid.isVersion4 else {
      throw error("has invalid format")
    }
    return uuid
  }

  /// One of the texts that the cases stand for.
  func choice<Choice: RawRepresentable>(_: Choice.Type) throws(APIError) -> Choice
  where Choice.RawValue == String {
    guard let text = try existing().string, let choice = Choice(rawValue: text) else {
      throw APIError.invalid(path)
    }
    return choice
  }
}

/// Hummingbird has parameters of its own, those of a path.
typealias Parameters = HTTP.Parameters
