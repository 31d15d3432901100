internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import Registrations

extension ZulipBouncerRoutes {
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
    guard UUID.isCanonicalVersion4(id), let uuid = UUID(uuidString: id) else {
      throw APIError.invalidUUID
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
      throw APIError(error, hostname: text)
    }
  }
}
