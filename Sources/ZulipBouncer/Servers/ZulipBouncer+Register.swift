internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import Registrations
internal import Storage
internal import Wire

extension ZulipBouncer {
  /// `POST server/register`: a server comes in, or changes what is known of it
  /// (`Documentation/Protocols/Zulip.md` 3.2).
  func register(_ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let id = try parameters.text("zulip_org_id", .stripped(length: 36))
    let key = try parameters.text("zulip_org_key", .stripped(length: RemoteServers.keyLength))
    let hostnameText = try parameters.text("hostname", .verbatim(maximum: 128))
    let emailText = try parameters.required("contact_email")
    let newKey = try parameters.optionalText("new_org_key", .stripped(length: RemoteServers.keyLength))
    let hostname = try Hostname(parameter: hostnameText)
    let email = try ContactEmail(parameter: emailText)
    if configuration.verifyEmailDomain { try await mailDomains.check(email.domain) }
    guard UUID.isCanonicalVersion4(id), let uuid = UUID(uuidString: id) else {
      throw APIError("Invalid UUID")
    }
    let application = RemoteServers.Application(
      uuid: uuid, key: key, hostname: hostname, contactEmail: email.text, newKey: newKey)
    do {
      let created = try await dependencies.servers.register(
        application, mayCreate: mayCreate(hostname), mustProve: configuration.verifyHostnames)
      context.logger.info(
        "server registered",
        metadata: ["server": "\(id)", "new": "\(created)", "rotated": "\(newKey != nil)"])
      return parameters.success([.init("created", .bool(created))])
    } catch let refusal as RemoteServers.Refusal {
      throw APIError(refusal, of: application, hostname: hostnameText)
    }
  }

  /// Whether a new server of this hostname is let in.
  func mayCreate(_ hostname: Hostname) -> Bool {
    switch configuration.registration {
    case .open: true
    case .closed: configuration.allowedHostnames.contains { $0.matches(hostname) }
    }
  }

  /// `POST server/deactivate`: a server takes its leave (`Documentation/Protocols/Zulip.md` 3.5).
  func deactivate(_ server: RemoteServer, _ request: Request, _ context: WireContext) async throws -> Response
  {
    let parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    try await dependencies.servers.setDeactivated(server.id, true)
    context.logger.info("server deactivated itself", metadata: ["server": "\(server.uuid.canonical)"])
    return parameters.success()
  }
}

extension Hostname {
  /// Reads the `hostname` of a request, or says what is wrong with it.
  init(parameter text: String) throws(APIError) {
    do {
      try self.init(text)
    } catch {
      switch error {
      case .components:
        throw APIError("\(text) contains invalid components (e.g., path, query, fragment).")
      case .invalid:
        throw APIError("\(text) is not a valid hostname")
      case .notASCII:
        throw APIError("\(text) is not a valid hostname: it wants the ASCII spelling (xn--...)")
      }
    }
  }
}

extension APIError {
  fileprivate init(
    _ refusal: RemoteServers.Refusal, of application: RemoteServers.Application, hostname: String
  ) {
    let role = application.uuid.canonical
    switch refusal {
    case .wrongKey, .alreadyThere:
      self.init(
        code: "INVALID_ZULIP_SERVER", APIError.wrongKeyText(role), fields: [.init("role", .string(role))])
    case .deactivated:
      self.init(
        .unauthorized, code: "REALM_DEACTIVATED", APIError.deactivatedText,
        headers: [.wwwAuthenticate: "Basic realm=\"zulip\""])
    case .hostnameTaken:
      self.init(
        code: "HOSTNAME_ALREADY_IN_USE_BOUNCER_ERROR", "A server with hostname \(hostname) already exists",
        fields: [.init("hostname", .string(hostname))])
    case .unprovenHostname:
      self.init(
        .forbidden, code: "HOSTNAME_NOT_VERIFIED",
        """
        This push notification service lets a new server in once it has shown that \(hostname) is its own. \
        Run: manage.py register_server --registration-transfer
        """)
    case .unprovenMove:
      self.init(
        .forbidden, code: "HOSTNAME_NOT_VERIFIED",
        """
        This push notification service wants a server to show that \(hostname) is its own. Run: \
        manage.py register_server --deactivate, then manage.py register_server --registration-transfer
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
