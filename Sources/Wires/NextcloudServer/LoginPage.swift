import HTTP
import HTTPTypes
import Hummingbird

/// A page of the login flow: plain HTML for a phone's browser, without scripts or external resources.
enum LoginPage: Sendable {
  /// Asks for the user's name and key.
  case signIn(client: String, login: String, fault: Fault?)
  /// Asks whether the app may sign in.
  case grant(client: String, account: String, proof: String)
  /// The app has been granted access.
  case done(client: String)
  /// The flow does not exist or is over.
  case gone
  /// The user has the maximum number of app passwords.
  case tooManyApps
  /// Too many requests from this address.
  case busy

  /// The reasons for asking to sign in again.
  enum Fault: String, Sendable {
    case wrongKey = "There is no such account, or this is not its key."
    case tooManyTries = "There were too many tries. Wait for some minutes, then try again."
    case tooLate = "That took too long. Sign in again."
  }

  /// Renders the page.
  ///
  /// - Parameter name: name of the service.
  func response(name: String) -> Response {
    var model = Model(service: name, title: title)
    switch self {
    case .signIn(let client, let login, let fault):
      model.signIn = .init(client: client, login: login, fault: fault?.rawValue)
    case .grant(let client, let account, let proof):
      model.grant = .init(client: client, account: account, proof: proof)
    case .done(let client): model.done = .init(client: client)
    case .gone:
      model.message = "It was used already, or is older than 20 minutes. Add the account in the app again."
    case .tooManyApps:
      model.message =
        "As many apps use this account as may. Sign one of them out, then add the account again."
    case .busy: model.message = "Wait for a minute, then load this page again."
    }
    return Self.templates.response("login", model, status, Self.headers)
  }

  private var title: String {
    switch self {
    case .signIn: "Sign in"
    case .grant: "Connect this app?"
    case .done: "The app is connected"
    case .gone: "This link is no longer valid"
    case .tooManyApps: "Too many apps"
    case .busy: "Too many requests"
    }
  }

  private var status: HTTPResponse.Status {
    switch self {
    case .signIn(_, _, nil), .grant, .done: .ok
    case .signIn(_, _, .tooManyTries), .busy: .tooManyRequests
    case .signIn: .forbidden
    case .gone: .notFound
    case .tooManyApps: .conflict
    }
  }

  /// Values for `login.mustache`.
  private struct Model: PageModel {
    struct SignIn {
      let client: String
      let login: String
      let fault: String?
    }

    struct Grant {
      let client: String
      let account: String
      let proof: String
    }

    struct Done {
      let client: String
    }

    let service: String
    let title: String
    var signIn: SignIn?
    var grant: Grant?
    var done: Done?
    var message: String?
  }

  private static let templates = PageTemplates(
    ["login": PackageResources.login_mustache], sheet: PackageResources.login_css)

  /// They keep the page's address, which is a secret, out of `Referer` and search engines.
  private static let headers: HTTPFields = {
    var headers: HTTPFields = [:]
    headers[HTTPField.Name("Referrer-Policy")!] = "no-referrer"  // these are valid names
    headers[HTTPField.Name("X-Robots-Tag")!] = "none"
    return headers
  }()
}
