internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import Providers
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

extension ZulipBouncerRoutes {
  /// The page that a server's administrators are sent to.
  static let infoPath = "/api/v1/remotes/about"

  /// `POST server/billing`: there is nothing to bill here, and a page that says so
  /// (`Documentation/Protocols/Zulip.md` 4.5).
  func billing(_ server: RemoteServer, _ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let user = try parameters.json("user")
    _ = try user["uuid"].uuid4()
    _ = try user["email"].string()
    _ = try user["full_name"].string()
    let realm = try RealmDescription(try parameters.json("realm"))
    try parameters.choice("uri_scheme", of: ["http://", "https://"])
    try parameters.choice(
      "next_page", of: ["sponsorship", "upgrade", "billing", "plans", "deactivate"])
    _ = try await self.realm(realm.uuid, of: server)
    return parameters.success([
      .init("billing_access_url", .string(configuration.publicURL() + Self.infoPath))
    ])
  }

  /// `GET` of that page.
  func info(_ request: Request, _ context: WireContext) async throws -> Response {
    Response(
      status: .ok, headers: [.contentType: "text/plain; charset=utf-8"],
      body: ResponseBody(
        byteBuffer: ByteBuffer(
          string: """
            This push notification service is run by the people who gave you its address.
            It is free of charge and has no plans: there is nothing to buy and nothing to end.

            """)))
  }
}

extension Parameters {
  /// A parameter that may be left out, else is one of these.
  fileprivate mutating func choice(_ name: String, of choices: Set<String>) throws(APIError) {
    guard let text = optional(name) else { return }
    guard choices.contains(text) else { throw APIError.invalid(name) }
  }
}

/// An address to write to, as Django's validator takes it (`Documentation/Protocols/Zulip.md` 3.2).
struct ContactEmail {
  let text: String

  init(parameter text: String) throws(APIError) {
    guard text.utf8.count <= 320, let at = text.lastIndex(of: "@"),
      Self.isLocalPart(text[..<at]), Self.isDomain(text[text.index(after: at)...])
    else { throw APIError.invalidEmail }
    self.text = text
  }

  /// RFC 5322's dot-atom.
  private static func isLocalPart(_ text: Substring) -> Bool {
    text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { atom in
      !atom.isEmpty
        && atom.unicodeScalars.allSatisfy { scalar in
          switch scalar {
          case "a"..."z", "A"..."Z", "0"..."9": true
          default: "!#$%&'*+/=?^_`{}|~-".unicodeScalars.contains(scalar)
          }
        }
    }
  }

  private static func isDomain(_ text: Substring) -> Bool {
    if text.first == "[", text.last == "]" { return IPAddress(String(text.dropFirst().dropLast())) != nil }
    guard text.unicodeScalars.allSatisfy({ $0 != ":" && $0 != "[" }), text.last != "." else { return false }
    return Hostname(international: String(text)) != nil
  }
}
