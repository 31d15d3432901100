import Delivery
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import NIOCore
import SQL
import Sealing

/// The operator's pages under `/admin`.
struct AdminRoutes: Sendable {
  private let dashboard: Dashboard
  private let access: AdminAccess

  init(_ dashboard: Dashboard, token: String?, bearer: BearerToken?) {
    self.dashboard = dashboard
    access = AdminAccess(
      token: token, bearer: bearer, storageKey: dashboard.sources.storageKey,
      sessions: AdminSessions(database: dashboard.sources.database), now: dashboard.sources.now)
  }

  func add(to router: Routes) {
    page("/admin", to: router) { _, _, hasSession in
      AdminPages.response(
        "overview", "push-bouncer", await dashboard.overview(), refreshes: true, hasSession: hasSession)
    }
    page("/admin/servers", to: router) { request, _, hasSession in
      let page = Int(request.uri.queryParameters.get("page") ?? "") ?? 1
      return AdminPages.response(
        "servers", "Chat servers", await dashboard.serverList(page: page), hasSession: hasSession)
    }
    page("/admin/servers/{id}", to: router) { _, context, hasSession in
      guard let id = context.parameters.get("id", as: Int64.self),
        let (title, page) = try await dashboard.serverPage(id)
      else { throw PageNotFound() }
      return AdminPages.response("server", title, page, hasSession: hasSession)
    }
    page("/admin/find", to: router) { request, _, hasSession in
      let query = Self.query(request)
      let shown =
        query.utf8.count <= 4 * DeviceQuery.maximumBytes && (try? DeviceQuery(query)) != nil ? query : ""
      return AdminPages.response(
        "find", "Find", try await dashboard.find(query), hasSession: hasSession, query: shown)
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
    _ path: RouterPath, to router: Routes,
    _ content: @escaping @Sendable (Request, WireContext, _ hasSession: Bool) async throws -> Response
  ) {
    router.endpoint(path, .get) { request, context in
      do {
        let hasSession = try await access.admit(request, context)
        // With a hanging database the page is still answered: the parts that need it say that they are
        // unknown.
        return try await DatabaseWait.limit(eachCallTo: .seconds(3)) {
          try await content(request, context, hasSession)
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
      response.headers[.setCookie] = try await access.signIn(token, request, context)
      return response
    } catch {
      return Self.refusal(error)
    }
  }

  private func signOut(_ request: Request, _ context: WireContext) async throws -> Response {
    guard AdminAccess.isOwnForm(request) else { return Self.notFromHere }
    do {
      var response = Self.forward
      response.headers[.setCookie] = try await access.signOut(request)
      return response
    } catch {
      return Self.refusal(error)
    }
  }

  private static var forward: Response {
    Response(status: .seeOther, headers: [.location: "/admin", .cacheControl: "no-store"])
  }

  private static var notFromHere: Response {
    AdminPages.message(.forbidden, "Not from here", "This form was not sent from a page of this service.")
  }

  /// The page for an error.
  private static func refusal(_ error: any Error) -> Response {
    switch error {
    case is AdminAccess.SignInNeeded: return signInPage(nil)
    case let error as APIError where error.status == .forbidden:
      return AdminPages.message(
        .forbidden, "Set admin.token",
        """
        Without admin.token these pages are shown under an address or localhost only, so that no other site can read \
        them through your browser. To reach them under a name, set admin.token.
        """)
    case let error as APIError where error.status == .tooManyRequests:
      var response = AdminPages.message(
        .tooManyRequests, "Wait a moment", "Too many wrong tokens came from your address.")
      response.headers[.retryAfter] = error.headers[.retryAfter]
      return response
    case let error as APIError where error.status == .unauthorized:
      return signInPage("This is not the token.")
    case is NIOTooManyBytesError:
      return AdminPages.message(.contentTooLarge, "Too long", "This is too long for a token.")
    case is PageNotFound: return AdminPages.message(.notFound, "Not found", "There is no such page.")
    default:
      return AdminPages.message(
        .serviceUnavailable, "Not known",
        "The database does not answer at present. Try again in a moment, or see /readyz.")
    }
  }

  /// Values for `sign-in.mustache`.
  private struct SignIn {
    let fault: String?
  }

  private static func signInPage(_ fault: String?) -> Response {
    AdminPages.response("sign-in", "Sign in", SignIn(fault: fault), status: .unauthorized, query: nil)
  }
}
