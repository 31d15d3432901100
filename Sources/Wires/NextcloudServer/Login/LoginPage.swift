internal import Crypto
internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Sealing

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

  /// Why the sign-in is asked for again.
  enum Fault: String, Sendable {
    case wrongKey = "There is no such account, or this is not its key."
    case tooManyTries = "There were too many tries. Wait for some minutes, then try again."
    case tooLate = "That took too long. Sign in again."
  }

  /// Renders the page.
  ///
  /// - Parameter name: name of the service.
  func response(name: String) -> Response {
    let html = """
      <!DOCTYPE html>
      <html lang="en">
      <head>
      <meta charset="utf-8">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <title>\(Self.escaped(title)) – \(Self.escaped(name))</title>
      <style>\(Self.style)</style>
      </head>
      <body>
      <main>
      <p class="name">\(Self.escaped(name))</p>
      <h1>\(Self.escaped(title))</h1>
      \(content)
      </main>
      </body>
      </html>

      """
    return Response(
      status: status, headers: Self.headers, body: ResponseBody(byteBuffer: ByteBuffer(string: html)))
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

  private var content: String {
    switch self {
    case .signIn(let client, let login, let fault):
      """
      <p>The app <strong>\(Self.escaped(client))</strong> wants to use your account.</p>
      <p class="note">Go on only if you have just added this account in the app yourself.</p>
      \(fault.map { "<p class=\"fault\" role=\"alert\">\(Self.escaped($0.rawValue))</p>" } ?? "")
      <form method="post">
      <label for="login">Email or user name</label>
      <input id="login" name="login" value="\(Self.escaped(login))" maxlength="254" required autocomplete="username" autocapitalize="none" spellcheck="false">
      <label for="key">API key</label>
      <input id="key" name="key" type="password" maxlength="100" required autocomplete="current-password">
      <button>Sign in</button>
      </form>
      """
    case .grant(let client, let account, let proof):
      """
      <p>The app <strong>\(Self.escaped(client))</strong> gets access to the account <strong>\(Self.escaped(account))</strong>, until it signs out.</p>
      <form method="post">
      <input type="hidden" name="proof" value="\(Self.escaped(proof))">
      <button>Grant access</button>
      </form>
      <p class="note">To refuse, close this page.</p>
      """
    case .done(let client):
      "<p>You may close this page and go back to <strong>\(Self.escaped(client))</strong>.</p>"
    case .gone:
      "<p>It was used already, or is older than 20 minutes. Add the account in the app again.</p>"
    case .tooManyApps:
      "<p>As many apps use this account as may. Sign one of them out, then add the account again.</p>"
    case .busy:
      "<p>Wait for a minute, then load this page again.</p>"
    }
  }

  static func escaped(_ text: String) -> String {
    text.escapedForMarkup { $0 == "'" ? "&#39;" : $0 == "\0" ? "\u{FFFD}" : nil }
  }

  private static let style = """
    :root{color-scheme:light dark;--text:#1b1b1f;--back:#f2f3f5;--card:#fff;--line:#8a8d94;--note:#565a63;--main:#0b57c4;--on:#fff;--fault:#a30d0d}
    @media(prefers-color-scheme:dark){:root{--text:#ececf0;--back:#121316;--card:#1e2025;--line:#7d818a;--note:#b0b4bd;--main:#8ab4ff;--on:#0a1a33;--fault:#ff9d94}}
    *{box-sizing:border-box}
    body{margin:0;font:1rem/1.5 system-ui,sans-serif;color:var(--text);background:var(--back)}
    main{max-width:26rem;margin:0 auto;padding:1.5rem;overflow-wrap:anywhere}
    @media(min-width:32rem){main{margin-top:10vh;background:var(--card);border-radius:.75rem;padding:2rem}}
    h1{font-size:1.5rem;line-height:1.25;margin:0 0 1rem}
    p{margin:0 0 1rem}
    .name,.note{color:var(--note)}
    .name{margin:0 0 .25rem}
    .fault{color:var(--fault);font-weight:600}
    label{display:block;font-weight:600;margin:0 0 .25rem}
    input{width:100%;font:inherit;color:inherit;background:transparent;border:1px solid var(--line);border-radius:.5rem;padding:.75rem;margin:0 0 1rem}
    button{width:100%;font:inherit;font-weight:600;color:var(--on);background:var(--main);border:0;border-radius:.5rem;padding:.8rem;margin:.5rem 0 1rem;cursor:pointer}
    input:focus-visible,button:focus-visible{outline:3px solid var(--main);outline-offset:2px}
    """

  /// Forbids scripts, external resources and framing, and keeps the page's address, which is a secret, out of
  /// `Referer`.
  private static let headers: HTTPFields = {
    let hash = Base64.encode(Array(SHA256.hash(data: Data(style.utf8))))
    var headers: HTTPFields = [
      .contentType: "text/html; charset=utf-8", .cacheControl: "no-store",
      .contentSecurityPolicy:
        "default-src 'none'; style-src 'sha256-\(hash)'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      .xContentTypeOptions: "nosniff",
    ]
    headers[HTTPField.Name("X-Frame-Options")!] = "DENY"  // these are valid tokens
    headers[HTTPField.Name("Referrer-Policy")!] = "no-referrer"
    headers[HTTPField.Name("X-Robots-Tag")!] = "none"
    return headers
  }()
}
