package import Basics
import Foundation
import HTTPClient

/// The settings of Web Push.
package struct WebPushSettings: Sendable {
  package init() {}

  @Setting(
    "webpush.enabled", "true", .flag, "Web Push, for phones without Google's services and for browsers")
  package var isEnabled: Bool

  @Setting(
    "webpush.contact", .contact,
    "whom push services may write to; default: mailto: and operator.email, else http.public_url if it has https://"
  )
  package var contact: String?

  @Setting(
    "webpush.allow_private_hosts", "", .hosts,
    "push services that may have private addresses, such as an own ntfy; no other may")
  package var privateHosts: [String]
}

extension WebPushSettings {
  /// The contact if the operator has named none: push services refuse a request without a well-formed one.
  package static let nobody = "mailto:nobody@push-bouncer.invalid"
  private static let maximumContactBytes = 255

  /// The text if it can be sent as a contact: printable ASCII that is `mailto:` and an address, or an
  /// `https:` URL with a host.
  package static func contact(_ text: String) -> String? {
    guard text.utf8.count <= maximumContactBytes,
      text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !"\"<>\\".utf8.contains($0) })
    else { return nil }
    if text.hasPrefix("mailto:") {
      let parts = text.dropFirst("mailto:".count).split(separator: "@", omittingEmptySubsequences: false)
      return parts.count == 2 && !parts[0].isEmpty && (try? Hostname(String(parts[1]))) != nil ? text : nil
    }
    guard let url = URL(string: text), url.scheme == "https", url.host()?.isEmpty == false else { return nil }
    return text
  }

  /// This service's address as a contact; nil if its host is an IP address or `localhost`.
  package static func contact(publicURL: String?) -> String? {
    guard let publicURL, let host = URL(string: publicURL)?.host(), host != "localhost",
      let hostname = try? Hostname(host), !hostname.isAddress
    else { return nil }
    return contact(publicURL)
  }

  /// The normalised spelling of a host without a port, as ``Hostname`` has it. A name without a dot, as
  /// containers have, is allowed.
  package static func host(_ text: String) -> String? {
    if let hostname = Hostname(international: text) ?? (try? Hostname("[\(text)]")) {
      return hostname.port == nil ? hostname.host : nil
    }
    let suffix = ".internal"
    guard !text.utf8.contains(UInt8(ascii: ".")), let name = try? Hostname(text + suffix), name.port == nil
    else { return nil }
    return String(name.host.dropLast(suffix.count))
  }
}

extension Hostname {
  fileprivate var isAddress: Bool {
    host.utf8.contains(UInt8(ascii: ":")) || host.utf8.allSatisfy { $0 < UInt8(ascii: "A") }
  }
}

extension SettingShape<String> {
  package static var contact: SettingShape {
    SettingShape(
      expected: "mailto: and an address, or a URL with https://", example: "mailto:push@example.org",
      parse: { WebPushSettings.contact($0) })
  }
}

extension SettingShape<[String]> {
  /// A list of hosts, in their normalised spelling.
  package static var hosts: SettingShape {
    .list(
      "host names or addresses without a port, comma-separated", example: "ntfy.example.org, 10.0.0.7"
    ) { WebPushSettings.host($0) }
  }
}

extension PushProviders.Configuration {
  package struct WebPush: Sendable {
    /// The key pair that subscriptions are bound to.
    package var key: VAPIDKey
    /// `sub` of VAPID tokens: a `mailto:` or `https:` URL.
    package var contact: String
    /// Push services that may have private addresses, in lower case.
    package var privateHosts: Set<String>
    /// Limit of connections to push services. A quarter of them may go to hosts that do not answer.
    package var connections: Int

    package init(
      key: VAPIDKey, contact: String, privateHosts: Set<String> = [], connections: Int = 1000
    ) {
      self.key = key
      self.contact = contact
      self.privateHosts = privateHosts
      self.connections = connections
    }
  }
}
