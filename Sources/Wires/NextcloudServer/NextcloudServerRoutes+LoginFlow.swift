import Basics
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import NIOCore
import Registrations

/// Version 2 of Nextcloud's login flow, by which apps add an account: the app asks for a page and opens it in
/// a browser, where the user grants access; meanwhile the app polls for its app password.
extension NextcloudServerRoutes {
  /// Maximum number of bytes in the bodies of these calls, which hold names and secrets.
  private static let maximumLoginBytes = 1 << 14

  func addLoginRoutes(to router: Routes) {
    for base in ["/index.php/login/v2", "/login/v2"] {
      let routes = router.group("\(base)")
      routes.endpoint("", .post, use: openLoginFlow)
      routes.endpoint("poll", .post, use: pollLoginFlow)
      routes.endpoint("flow/{token}", [.get: showLoginFlow, .post: answerLoginFlow])
    }
  }

  /// `POST login/v2`: opens a flow for the app that calls.
  private func openLoginFlow(_ request: Request, _ context: WireContext) async throws -> Response {
    try perAddress.check(context.clientAddress.source)
    do {
      let flow = try await loginFlows.open(
        client: NextcloudLoginFlows.clientName(request.headers[.userAgent] ?? ""),
        address: context.clientAddress.source.description)
      let base = "\(address())/index.php/login/v2"
      return Self.json([
        "poll": ["token": .string(flow.poll), "endpoint": .string("\(base)/poll")],
        "login": .string("\(base)/flow/\(flow.login)"),
      ])
    } catch NextcloudLoginFlows.OpenError.tooManyOfAddress {
      throw APIError(
        .tooManyRequests, code: "RATE_LIMIT_HIT", "Too many apps of this address wait to be let in",
        headers: [.retryAfter: "60"])
    } catch NextcloudLoginFlows.OpenError.tooMany {
      throw APIError.unavailable("Too many apps wait to be let in", retryAfter: 60)
    }
  }

  /// `POST login/v2/poll`: 404 until the user has granted access, and again after the answer was given.
  private func pollLoginFlow(_ request: Request, _ context: WireContext) async throws -> Response {
    try polls.check(context.clientAddress.source)
    let token = try await Self.fields(of: request)("token")
    do {
      guard let (user, password) = try await loginFlows.finish(poll: token) else {
        return Self.json([], .notFound)
      }
      return Self.json([
        "server": .string(address()), "loginName": .string(user.username),
        "appPassword": .string(password),
      ])
    } catch is AccountStore.AppPasswordError {
      return Self.json([], .notFound)
    }
  }

  /// `GET login/v2/flow/{token}`: the page that asks the user to sign in.
  private func showLoginFlow(_ request: Request, _ context: WireContext) async throws -> Response {
    try await page(context) { flow in .signIn(client: flow.client, login: "", fault: nil) }
  }

  /// `POST login/v2/flow/{token}`: with name and key, the user signs in and is asked for consent; with the
  /// proof of that sign-in, the user has consented.
  private func answerLoginFlow(_ request: Request, _ context: WireContext) async throws -> Response {
    let field = try await Self.fields(of: request)
    return try await page(context) { flow in
      let proof = field("proof")
      if !proof.isEmpty { return try await grant(flow, proof: proof, token: Self.token(context)) }
      let login = field("login").strippingWhitespace()
      let key = field("key").strippingWhitespace()
      let attempt = SignInGuard.Attempt(from: context.clientAddress, account: login, secret: key)
      do {
        try signIns.admit(attempt)
      } catch {
        return .signIn(client: flow.client, login: login, fault: .tooManyTries)
      }
      let user = try await accounts.authenticate(login: login, apiKey: key)
      signIns.record(attempt, isRight: user != nil)
      guard let user else { return .signIn(client: flow.client, login: login, fault: .wrongKey) }
      return .grant(
        client: flow.client, account: user.username,
        proof: loginFlows.proof(of: user.id, for: flow))
    }
  }

  private func grant(
    _ flow: NextcloudLoginFlows.Flow, proof: String, token: String
  ) async throws -> LoginPage {
    guard let user = loginFlows.user(provenBy: proof, for: flow) else {
      return .signIn(client: flow.client, login: "", fault: .tooLate)
    }
    do {
      return try await loginFlows.grant(login: token, user: user)
        ? .done(client: flow.client) : .gone
    } catch AccountStore.AppPasswordError.tooMany {
      return .tooManyApps
    } catch AccountStore.AppPasswordError.unknownUser {
      return .gone
    }
  }

  /// Renders a page for an open flow, or the page that says there is none.
  private func page(
    _ context: WireContext, _ make: (NextcloudLoginFlows.Flow) async throws -> LoginPage
  ) async throws -> Response {
    if perAddress.count(context.clientAddress.source).retryAfter != nil {
      return LoginPage.busy.response(name: settings.name)
    }
    let flow = try await loginFlows.find(login: Self.token(context))
    guard let flow else { return LoginPage.gone.response(name: settings.name) }
    return try await make(flow).response(name: settings.name)
  }

  private static func token(_ context: WireContext) -> String { context.parameters.get("token") ?? "" }

  /// The fields of a form or JSON object; empty for one that is absent or cannot be stored as text.
  private static func fields(of request: Request) async throws -> (String) -> String {
    let body = try await request.wholeBody(upTo: maximumLoginBytes)
    let object = body.readableBytesView.first == UInt8(ascii: "{") ? try? JSON.parse(body) : nil
    let fields = object == nil ? Form.parse(body.readableBytesView) ?? [] : []
    return { name in
      let text = object?[name]?.string ?? fields.last { $0.name == Name(name) }?.value ?? ""
      return text.isStorable ? text : ""
    }
  }

  static func json(_ value: JSON, _ status: HTTPResponse.Status = .ok) -> Response {
    Response(
      status: status,
      headers: [.contentType: "application/json; charset=utf-8", .cacheControl: "no-store"],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: value.php())))
  }
}
