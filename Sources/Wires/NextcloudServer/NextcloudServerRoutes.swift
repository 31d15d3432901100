import Basics
import Foundation
package import HTTP
import HTTPClient
import HTTPTypes
import Hummingbird
package import NextcloudProxy
import Providers
package import Registrations

/// The server-side endpoints at which Nextcloud's apps register for push notifications.
package struct NextcloudServerRoutes: Sendable {
  /// The version of Nextcloud whose behaviour is implemented.
  static let version = "35.0.0"

  let accounts: AccountStore
  let loginFlows: NextcloudLoginFlows
  let apps: NextcloudApps
  let addedCapabilities: AddedCapabilities
  let sender: NextcloudSender
  let settings: BuiltInServerSettings
  let maxBodyBytes: Int
  let perUser: Rate<Int64>
  /// Limits calls without a login.
  let perAddress: Rate<ClientAddress>
  /// Limits apps that poll their login flow, which they do every second.
  let polls: Rate<ClientAddress>
  let signIns: SignInGuard

  /// - Parameter apps: recognizes the operator's own apps.
  package init(
    _ settings: BuiltInServerSettings, http: HTTPSettings, accounts: AccountStore,
    loginFlows: NextcloudLoginFlows, apps: NextcloudApps,
    addedCapabilities: AddedCapabilities, sender: NextcloudSender
  ) {
    self.accounts = accounts
    self.loginFlows = loginFlows
    self.apps = apps
    self.addedCapabilities = addedCapabilities
    self.sender = sender
    self.settings = settings
    maxBodyBytes = http.maxBodyBytes
    let now = sender.now
    perUser = Rate(settings.rateLimitPerUser, now: now)
    perAddress = Rate(http.rateLimitPerAddress, now: now)
    polls = Rate(RateLimit(calls: 600, seconds: 60), now: now)
    signIns = SignInGuard(now: now)
  }

  /// The URL at which apps and browsers reach the instance, without a final slash.
  func address() -> String { sender.settings.url ?? settings.setURL ?? sender.ownAddress() }

  package func addRoutes(to router: Routes) {
    router.add(UnknownOCSPaths())
    router.endpoint("/status.php", .get, use: status)
    for path in ["/index.php/204", "/204"] { router.endpoint("\(path)", .get, use: noContent) }
    addLoginRoutes(to: router)
    for version in OCSVersion.allCases { addOCSRoutes(to: router.group("/ocs/\(version.rawValue)")) }
  }

  private func addOCSRoutes(to routes: Routes) {
    routes.endpoint("cloud/capabilities", .get, use: unauthenticated(capabilities))
    routes.endpoint("cloud/user", .get, use: authenticated(user))
    routes.endpoint("cloud/users/{user_id}", .get, use: authenticated(namedUser))
    routes.endpoint("core/getapppassword", .get, use: authenticated(makeAppPassword))
    routes.endpoint("core/apppassword", .delete, use: authenticated(removeAppPassword))
    routes.endpoint("identityproof/key/{user_id}", .get, use: unauthenticated(identityProof))
    let app = routes.group("apps/notifications/api")
    app.endpoint("v2/push", [.post: authenticated(register), .delete: authenticated(unregister)])
    app.endpoint(
      "v3/push", [.post: authenticated(registerAsDrafted), .delete: authenticated(unregisterAsDrafted)])
    addWebPushRoutes(to: app)
    app.endpoint("v3/test/self", .post, use: authenticated(testSelf))
    app.endpoint(
      "v2/notifications",
      [.get: authenticated(listNotifications), .delete: authenticated(deleteNotifications)])
    app.endpoint("v2/notifications/exists", .post, use: authenticated(existingNotifications))
    app.endpoint(
      "v2/notifications/{nid}",
      [.get: authenticated(getNotification), .delete: authenticated(deleteNotification)])
  }
}

/// Checks the proxy URL that a phone names: `https` and a public host (`Documentation/Protocols/Nextcloud.md`
/// 5.4).
enum ProxyAddress {
  static let maximumBytes = 256

  private static let localDomains: Set<Substring> = [
    "local", "localhost", "intranet", "internal", "private", "corp", "home", "lan",
  ]

  /// Whether a phone may name this proxy.
  ///
  /// - Parameter allowsLocal: whether any `http` or `https` URL is allowed.
  static func isValid(_ text: String, allowsLocal: Bool) -> Bool {
    // Case matters, as in Nextcloud. Spaces, control characters and non-ASCII characters are not allowed in a
    // URL.
    guard text.utf8.count <= maximumBytes, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }),
      let url = URL(string: text, encodingInvalidCharacters: false),
      let host = url.host(percentEncoded: true).map(unbracketed), isHost(host),
      (url.port ?? 0) <= UInt16.max
    else { return false }
    if allowsLocal { return text.hasPrefix("https://") || text.hasPrefix("http://") }
    return text.hasPrefix("https://") && isPublic(host)
  }

  private static func unbracketed(_ host: String) -> String {
    host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
  }

  /// Whether it is an IP address, or labels of letters, digits and hyphens.
  private static func isHost(_ host: String) -> Bool {
    if IPAddress(host) != nil { return true }
    let labels = host.split(separator: ".", omittingEmptySubsequences: false)
    return host.utf8.count <= 253
      && labels.enumerated().allSatisfy { index, label in
        if label.isEmpty { return index > 0 && index == labels.count - 1 }
        return label.utf8.count <= 63 && label.first != "-" && label.last != "-"
          && label.utf8.allSatisfy { $0.isASCIILetterOrDigit || $0 == UInt8(ascii: "-") }
      }
  }

  private static func isPublic(_ host: String) -> Bool {
    if let address = IPAddress(host) { return address.isPublic }
    let labels = host.lowercased().split(separator: ".")
    guard labels.count > 1, let last = labels.last else { return false }
    // A name with a numeric last label is an IP address in another spelling.
    return !localDomains.contains(last) && !last.utf8.allSatisfy(\.isASCIIDigit)
      && !last.hasPrefix("0x")
  }
}
