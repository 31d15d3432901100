package import AsyncHTTPClient
import Crypto
import Foundation
package import HTTP
import NIOHTTP1
import Sealing

/// A phone with Nextcloud Talk for iOS on it, as far as pushes go: it registers at its server and at the
/// proxy, and opens what arrives.
package struct NextcloudPhone {
  static let userAgent = "Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0 (Strict VoIP)"

  /// For messages.
  package let token: String
  /// For calls.
  package let voipToken: String
  private let deviceKey = RSAPrivateKey.generate()
  private let proxyURL: String
  private let account: JSONService
  private let server: JSONService
  private let proxy: JSONService
  /// What it is to the proxy, once it has registered.
  package private(set) var identity: Identity?

  /// What the server has given it.
  package struct Identity {
    package let identifier: String
    let signature: String
    let userKey: RSAPublicKey
  }

  /// - Parameters:
  ///   - login: its user's name there, with an app password.
  ///   - proxy: the push proxy's address.
  ///   - other: another account's on the same phone, whose tokens it shares.
  package init(
    server: String, login: (user: String, password: String), proxy: String,
    besides other: NextcloudPhone? = nil, client: HTTPClient
  ) {
    func hex() -> String { VirtualPhone(.apns, appID: nil).token.uppercased() }
    token = other?.token ?? hex()
    voipToken = other?.voipToken ?? hex()
    proxyURL = proxy
    account = .nextcloud(server, "core", login, client: client)
    self.server = .nextcloud(server, "apps/notifications/api/v2", login, client: client)
    self.proxy = JSONService(
      url: proxy, credentials: .none, userAgent: Self.userAgent, client: client)
  }

  /// Registers at the server, and with what that says at the proxy.
  package mutating func register() async throws {
    let pushToken = "\(token) \(voipToken)"
    let hash = SHA512.hash(data: Data(pushToken.utf8)).map { byte in
      (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
    let answer = try await server.call(
      .POST, "push",
      .form([
        ("pushTokenHash", hash), ("devicePublicKey", deviceKey.publicKey.pem), ("proxyServer", proxyURL),
      ]))
    let data = answer["ocs"]?["data"]
    guard let identifier = data?["deviceIdentifier"]?.string, let signature = data?["signature"]?.string,
      let pem = data?["publicKey"]?.string
    else { throw DemoError("the server told the phone nothing to show at the proxy") }
    let identity = Identity(
      identifier: identifier, signature: signature, userKey: try RSAPublicKey(pem: pem))
    _ = try await proxy.call(.POST, "devices", .form([("pushToken", pushToken)] + fields(of: identity)))
    self.identity = identity
  }

  /// Ends its registration at both.
  package func unregister() async throws {
    _ = try await server.call(.DELETE, "push")
    guard let identity else { return }
    // As Talk does: with what is needed in the query.
    let query = String(decoding: Form.encode(fields(of: identity)), as: UTF8.self)
    _ = try await proxy.call(.DELETE, "devices?\(query)")
  }

  /// Ends its app password.
  package func signOut() async throws { _ = try await account.call(.DELETE, "apppassword") }

  /// Gets what a push has told of, as it was sent.
  func notification(_ nid: Int64) async throws -> JSON? {
    do {
      return try await server.call(.GET, "notifications/\(nid)")["ocs"]?["data"]
    } catch let refusal as JSONService.Refusal where refusal.status == .notFound {
      return nil
    }
  }

  /// Opens what Apple handed over, if it is signed by the user's server.
  package func open(_ payload: JSON) -> JSON? {
    guard let subject = payload["subject"]?.string.flatMap(Base64.decodeStrictly),
      let signature = payload["signature"]?.string.flatMap(Base64.decodeStrictly),
      identity?.userKey.verifies(signature, of: subject) == true,
      let plaintext = deviceKey.decrypt(subject, padding: .oaep)
    else { return nil }
    return try? JSON.parse(plaintext)
  }

  private func fields(of identity: Identity) -> [(String, String)] {
    [
      ("deviceIdentifier", identity.identifier), ("deviceIdentifierSignature", identity.signature),
      ("userPublicKey", identity.userKey.pem),
    ]
  }
}

extension JSONService {
  /// One of the services of a Nextcloud server, as a user's app meets it.
  static func nextcloud(
    _ server: String, _ path: String, _ login: (user: String, password: String), client: HTTPClient
  ) -> JSONService {
    JSONService(
      url: "\(server)/ocs/v2.php/\(path)",
      credentials: .basic(user: login.user, password: login.password), userAgent: NextcloudPhone.userAgent,
      headers: [("OCS-APIRequest", "true"), ("Accept", "application/json")], client: client)
  }
}

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
