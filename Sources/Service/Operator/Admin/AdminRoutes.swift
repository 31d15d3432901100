internal import Delivery
internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import SQL
internal import Sealing

/// The operator's pages under `/admin`.
struct AdminRoutes: Sendable {
  private let dashboard: Dashboard
  private let access: AdminAccess

  init(_ dashboard: Dashboard, token: String?, bearer: BearerToken?) {
    self.dashboard = dashboard
    access = AdminAccess(
      token: token, bearer: bearer, storageKey: dashboard.sources.storageKey, now: dashboard.sources.now)
  }

  func add(to router: Router<WireContext>) {
    page("/admin", to: router) { _, _, hasSession in
      Page.document("push-bouncer", refreshes: true, hasSession: hasSession, await dashboard.overview())
    }
    page("/admin/servers", to: router) { request, _, hasSession in
      let page = Int(request.uri.queryParameters.get("page") ?? "") ?? 1
      return Page.document("Chat servers", hasSession: hasSession, await dashboard.serverList(page: page))
    }
    page("/admin/servers/{id}", to: router) { _, context, hasSession in
      guard let id = context.parameters.get("id", as: Int64.self),
        let (title, content) = try await dashboard.serverPage(id)
      else { throw PageNotFound() }
      return Page.document(title, hasSession: hasSession, content)
    }
    page("/admin/find", to: router) { request, _, hasSession in
      let query = Self.query(request)
      let shown =
        query.utf8.count <= 4 * DeviceQuery.maximumBytes && (try? DeviceQuery(query)) != nil ? query : ""
      return Page.document("Find", hasSession: hasSession, query: shown, try await dashboard.find(query))
    }
    router.endpoint("/admin/sign-in", .post, use: signIn)
    router.endpoint("/admin/sign-out", .post, use: signOut)
  }

  /// The search text. Browsers encode a space in a form as `+`, so the query is parsed as a form.
  private static func query(_ request: Request) -> String {
    let fields = Form.parse((request.uri.query ?? "").utf8, maximumFields: 16) ?? []
    let text = fields.first { "\($0.name)" == "q" }?.value ?? ""
    return text.trimmingCharacters(in: .whitespacesAndNewlines)
  }

  private struct PageNotFound: Error {}

  private func page(
    _ path: RouterPath, to router: Router<WireContext>,
    _ content: @escaping @Sendable (Request, WireContext, _ hasSession: Bool) async throws -> HTML
  ) {
    router.endpoint(path, .get) { request, context in
      do {
        let hasSession = try access.admit(request, context)
        // With a hanging database the page is still answered: the parts that need it say that they are
        // unknown.
        return try await DatabaseWait.limit(eachCallTo: .seconds(3)) {
          Self.answer(.ok, try await content(request, context, hasSession))
        }
      } catch {
        return Self.refusal(error)
      }
    }
  }

  private func signIn(_ request: Request, _ context: WireContext) async throws -> Response {
    guard AdminAccess.isOwnForm(request) else { return Self.notFromHere }
    do {
      let body = try await request.wholeBody(upTo: 8192)
      let fields = Form.parse(body.readableBytesView, maximumFields: 4) ?? []
      let token = fields.first { "\($0.name)" == "token" }?.value ?? ""
      var response = Self.forward
      response.headers[.setCookie] = try access.signIn(token, request, context)
      return response
    } catch {
      return Self.refusal(error)
    }
  }

  private func signOut(_ request: Request, _ context: WireContext) async throws -> Response {
    guard AdminAccess.isOwnForm(request) else { return Self.notFromHere }
    var response = Self.forward
    response.headers[.setCookie] = AdminAccess.signOut(request)
    return response
  }

  private static var forward: Response {
    Response(status: .seeOther, headers: [.location: "/admin", .cacheControl: "no-store"])
  }

  private static var notFromHere: Response {
    answer(.forbidden, Page.message("Not from here", "This form was not sent from a page of this service."))
  }

  /// The page for an error.
  private static func refusal(_ error: any Error) -> Response {
    switch error {
    case is AdminAccess.SignInNeeded: return answer(.unauthorized, signInPage(nil))
    case let error as APIError where error.status == .forbidden:
      return answer(
        .forbidden,
        Page.message(
          "Set admin.token",
          """
          Without admin.token these pages are shown under an address or localhost only, so that no other site can read \
          them through your browser. To reach them under a name, set admin.token.
          """))
    case let error as APIError where error.status == .tooManyRequests:
      var response = answer(
        .tooManyRequests, Page.message("Wait a moment", "Too many wrong tokens came from your address."))
      response.headers[.retryAfter] = error.headers[.retryAfter]
      return response
    case let error as APIError where error.status == .unauthorized:
      return answer(.unauthorized, signInPage("This is not the token."))
    case is NIOTooManyBytesError:
      return answer(.contentTooLarge, Page.message("Too long", "This is no token."))
    case is PageNotFound: return answer(.notFound, Page.message("Not found", "There is no such page."))
    default:
      return answer(
        .serviceUnavailable,
        Page.message(
          "Not known", "The database does not answer at present. Try again in a moment, or see /readyz."))
    }
  }

  private static func signInPage(_ fault: String?) -> HTML {
    Page.document(
      "Sign in", canSearch: false,
      """
      <section><h1>Sign in</h1>
      \(fault.map { "<p class=\"word bad\" role=\"alert\">\($0)</p>" } as HTML?)
      <form action="/admin/sign-in" method="post">
      <input type="password" name="token" autocomplete="current-password" required autofocus aria-label="admin.token" \
      placeholder="admin.token">
      <button>Sign in</button>
      </form>
      <p class="faint">The token is the setting admin.token: in push-bouncer.yaml, or where serve is started.</p>
      </section>
      """)
  }

  private static func answer(_ status: HTTPResponse.Status, _ html: HTML) -> Response {
    Response(
      status: status,
      headers: [
        .contentType: "text/html; charset=utf-8", .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
        .contentSecurityPolicy: AdminStyle.contentSecurityPolicy, .referrerPolicy: "same-origin",
        .xFrameOptions: "DENY", .crossOriginOpenerPolicy: "same-origin",
      ], body: ResponseBody(byteBuffer: ByteBuffer(string: html.text)))
  }
}

// All of these names are valid, so the force unwraps cannot fail.
extension HTTPField.Name {
  fileprivate static let referrerPolicy = HTTPField.Name("Referrer-Policy")!
  fileprivate static let xFrameOptions = HTTPField.Name("X-Frame-Options")!
  fileprivate static let crossOriginOpenerPolicy = HTTPField.Name("Cross-Origin-Opener-Policy")!
}
