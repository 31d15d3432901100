internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Registrations

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
