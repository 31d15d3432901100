package import AsyncHTTPClient
import Foundation
import HTTP
import NIOHTTP1

/// An app that adds an account at a Nextcloud server, by version 2 of its login flow: it shows its user a
/// page, and asks again and again whether it was let in.
package struct NextcloudSignIn {
  /// What the user opens in a browser.
  package let page: String
  private let poll: JSONService
  private let token: String

  /// What the app has, once it was let in.
  package struct Account {
    /// The server's address, as the server has it.
    package let server: String
    /// The user's name there, with an app password.
    package let login: (user: String, password: String)
  }

  /// Asks a server for the page.
  package init(server: String, client: HTTPClient) async throws {
    let service = JSONService(
      url: server, credentials: .none, userAgent: NextcloudPhone.userAgent, client: client)
    guard try await service.call(.GET, "status.php")["installed"] == true else {
      throw DemoError("\(server) is no Nextcloud server")
    }
    let answer = try await service.call(.POST, "index.php/login/v2")
    guard let page = answer["login"]?.string, let token = answer["poll"]?["token"]?.string,
      let endpoint = answer["poll"]?["endpoint"]?.string, let slash = endpoint.lastIndex(of: "/")
    else { throw DemoError("\(server) has no page to sign in with") }
    self.page = page
    self.token = token
    poll = JSONService(
      url: String(endpoint[..<slash]), credentials: .none, userAgent: NextcloudPhone.userAgent, client: client
    )
  }

  /// The secret in the page's address, by which a host application lets the app in.
  var pageToken: String { String(page.split(separator: "/").last ?? "") }

  /// Asks once; nil if the user has not let the app in yet.
  func ask() async throws -> Account? {
    do {
      let answer = try await poll.call(.POST, "poll", .form([("token", token)]))
      guard let server = answer["server"]?.string, let user = answer["loginName"]?.string,
        let password = answer["appPassword"]?.string
      else { throw DemoError("the server let the app in and told it nothing to sign in with") }
      return Account(server: server, login: (user, password))
    } catch let refusal as JSONService.Refusal where refusal.status == .notFound {
      return nil
    }
  }

  /// Asks every second, until the user has let the app in or the page is no longer valid.
  package func wait() async throws -> Account {
    for _ in 0..<1200 {
      if let account = try await ask() { return account }
      try await Task.sleep(for: .seconds(1))
    }
    throw DemoError("nobody has let the app in")
  }
}
