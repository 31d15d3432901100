package import AsyncHTTPClient
import Crypto
import Foundation
package import HTTP
import NIOHTTP1
import Providers
import Sealing

/// A user's account at a Nextcloud server, as an app stores it: the server's address, the user's name and an
/// app password.
package struct NextcloudAccount: Sendable {
  static let userAgent = "Mozilla/5.0 (iOS) Nextcloud-Talk v21.0.0 (Strict VoIP)"

  /// The server's address, as the server reports it.
  package let server: String
  package let user: String
  let password: String
  let client: HTTPClient

  /// Calls one of the server's OCS services. Returns the `data` of its answer.
  @discardableResult
  func call(
    _ method: HTTPMethod, _ path: String, _ form: [(String, String)]? = nil,
    of service: String = "apps/notifications/api/v2"
  ) async throws -> JSON {
    let service = JSONService(
      url: "\(server)/ocs/v2.php/\(service)", credentials: .basic(user: user, password: password),
      userAgent: Self.userAgent, headers: [("OCS-APIRequest", "true"), ("Accept", "application/json")],
      client: client)
    return try await service.call(method, path, form.map(JSONService.Body.form))["ocs"]?["data"] ?? .null
  }

  /// Revokes the app password.
  package func signOut() async throws { try await call(.DELETE, "apppassword", of: "core") }
}

/// An app that adds an account at a Nextcloud server by Login Flow v2: it shows its user a page, and polls
/// until the user has approved the login.
package struct NextcloudSignIn {
  /// The URL that the user opens in a browser.
  package let page: String
  private let poll: JSONService
  private let token: String

  /// Starts the login flow at a server.
  package init(server: String, client: HTTPClient) async throws {
    func service(_ url: some StringProtocol) -> JSONService {
      JSONService(url: String(url), userAgent: NextcloudAccount.userAgent, client: client)
    }
    guard try await service(server).call(.GET, "status.php")["installed"] == true else {
      throw DemoError("\(server) is not a Nextcloud server")
    }
    let answer = try await service(server).call(.POST, "index.php/login/v2")
    guard let page = answer["login"]?.string, let token = answer["poll"]?["token"]?.string,
      let endpoint = answer["poll"]?["endpoint"]?.string, let slash = endpoint.lastIndex(of: "/")
    else { throw DemoError("\(server) did not start a login flow") }
    self.page = page
    self.token = token
    poll = service(endpoint[..<slash])
  }

  /// The secret in the page's address, with which a host application approves the login.
  var pageToken: String { String(page.split(separator: "/").last ?? "") }

  /// Polls once; nil if the user has not approved the login yet.
  func pollOnce() async throws -> NextcloudAccount? {
    do {
      let answer = try await poll.call(.POST, "poll", .form([("token", token)]))
      guard let server = answer["server"]?.string, let user = answer["loginName"]?.string,
        let password = answer["appPassword"]?.string
      else { throw DemoError("the server's answer to the login has no server, loginName or appPassword") }
      return NextcloudAccount(server: server, user: user, password: password, client: poll.client)
    } catch let refusal as JSONService.Refusal where refusal.status == .notFound {
      return nil
    }
  }

  /// Polls every second until the user has approved the login or the page is no longer valid.
  package func wait() async throws -> NextcloudAccount {
    for _ in 0..<1200 {
      if let account = try await pollOnce() { return account }
      try await Task.sleep(for: .seconds(1))
    }
    throw DemoError("the login was not approved in time")
  }
}

/// A phone with Nextcloud Talk for iOS on it, as far as pushes go: it registers at its server and at the
/// proxy, and opens what arrives.
package struct NextcloudPhone {
  /// For messages.
  package let token: String
  /// For calls.
  package let voipToken: String
  private let deviceKey = RSAPrivateKey.generate()
  private let account: NextcloudAccount
  private let proxy: JSONService
  /// Its registration at the proxy; nil before the first one.
  package private(set) var identity: Identity?

  /// The identity that the server has given it.
  package struct Identity {
    package let identifier: String
    let userKey: RSAPublicKey
    /// The form fields with which it registers and unregisters at the proxy.
    fileprivate let fields: [(String, String)]
  }

  /// - Parameters:
  ///   - proxy: the push proxy's address; nil: the server's own.
  ///   - other: another account's on the same phone, whose tokens it shares.
  package init(_ account: NextcloudAccount, proxy: String? = nil, besides other: NextcloudPhone? = nil) {
    func hex() -> String { VirtualPhone(.apns, appID: nil).token.uppercased() }
    token = other?.token ?? hex()
    voipToken = other?.voipToken ?? hex()
    self.account = account
    self.proxy = JSONService(
      url: proxy ?? account.server, userAgent: NextcloudAccount.userAgent, client: account.client)
  }

  /// Registers at the server, and with the server's signed answer at the proxy.
  package mutating func register() async throws {
    let pushToken = "\(token) \(voipToken)"
    let hash = SHA512.hash(data: Data(pushToken.utf8)).map { String(format: "%02x", $0) }.joined()
    let data = try await account.call(
      .POST, "push",
      [("pushTokenHash", hash), ("devicePublicKey", deviceKey.publicKey.pem), ("proxyServer", proxy.url)])
    guard let identifier = data["deviceIdentifier"]?.string, let signature = data["signature"]?.string,
      let pem = data["publicKey"]?.string
    else {
      throw DemoError(
        "the server's answer to the registration has no deviceIdentifier, signature or publicKey")
    }
    let identity = Identity(
      identifier: identifier, userKey: try RSAPublicKey(pem: pem),
      fields: [
        ("deviceIdentifier", identifier), ("deviceIdentifierSignature", signature), ("userPublicKey", pem),
      ])
    try await proxy.call(.POST, "devices", .form([("pushToken", pushToken)] + identity.fields))
    self.identity = identity
  }

  /// Ends its registration at the server and the proxy.
  package func unregister() async throws {
    try await account.call(.DELETE, "push")
    guard let identity else { return }
    // Talk sends the fields in the query.
    let query = String(decoding: Form.encode(identity.fields.map { ($0, $1) }), as: UTF8.self)
    try await proxy.call(.DELETE, "devices?\(query)")
  }

  /// Fetches the notification that a push announced.
  func notification(_ nid: Int64) async throws -> JSON? {
    do {
      return try await account.call(.GET, "notifications/\(nid)")
    } catch let refusal as JSONService.Refusal where refusal.status == .notFound {
      return nil
    }
  }

  /// Decrypts a payload from Apple if the user's server has signed it. Like Nextcloud's apps it tries OAEP, which servers
  /// from version 35 on use, and then PKCS#1 v1.5. As the signature is checked first, nobody else can learn from it which
  /// padding a ciphertext has.
  package func open(_ payload: JSON) throws(Unreadable) -> JSON {
    guard let subject = payload["subject"]?.string.flatMap(Base64.decodeStrictly) else {
      throw .notEncrypted
    }
    guard let signature = payload["signature"]?.string.flatMap(Base64.decodeStrictly),
      identity?.userKey.verifies(signature, of: subject) == true
    else { throw .wrongSignature }
    guard
      let plaintext = deviceKey.decrypt(subject, padding: .oaep)
        ?? deviceKey.decrypt(subject, padding: .pkcs1)
    else { throw .wrongKey }
    guard let notification = try? JSON.parse(plaintext) else { throw .malformed }
    return notification
  }
}

/// A phone without Google at a Nextcloud server, of version 34 or the one built in here: no push proxy takes part
/// (`Documentation/Protocols/Nextcloud.md` 5.6).
package struct NextcloudSubscriber {
  private let account: NextcloudAccount
  private let service: PushService
  private var subscription: PushSubscription?
  /// The number of the last message received.
  private var seen: Int64 = 0

  package init(_ account: NextcloudAccount, at service: PushService) {
    self.account = account
    self.service = service
  }

  /// Subscribes for all notifications. The server sends a token that way; it has to come back before anything else is
  /// sent.
  package mutating func subscribe() async throws {
    guard let key = try await account.call(.GET, "webpush/vapid")["vapid"]?.string else {
      throw DemoError("the server tells no VAPID key")
    }
    let subscription = try await service.subscribe(key: key)
    self.subscription = subscription
    seen = 0
    try await account.call(
      .POST, "webpush",
      [
        ("endpoint", subscription.endpoint), ("uaPublicKey", subscription.p256dh),
        ("auth", subscription.auth), ("appTypes", "all"),
      ])
    guard let token = try await messages().first?.get()["activationToken"]?.string else {
      throw DemoError(
        """
        the server has sent no token to make the subscription active with: its log says why, and \
        /_control/deliveries?all=true of the simulator what was refused
        """)
    }
    try await account.call(.POST, "webpush/activate", [("activationToken", token)])
  }

  /// The messages since the last call. Waits some seconds for the first.
  package mutating func messages() async throws -> [Result<JSON, Unreadable>] {
    guard let subscription else { return [] }
    return try await service.messages(for: subscription, after: &seen).map { message in
      Result { () throws(Unreadable) in try subscription.open(message) }
    }
  }

  /// Ends the subscription at the server and the push service.
  package func unsubscribe() async throws {
    try await account.call(.DELETE, "webpush")
    if let subscription { try await service.delete(subscription) }
  }
}
