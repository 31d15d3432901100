internal import Foundation
internal import Registrations

extension Configuration {
  /// `webpush`
  package struct WebPush: Sendable {
    /// Whether it is switched on.
    package var isEnabled: Bool
    /// Whom push services may write to: `mailto:` and an address, or an `https:` URL.
    package var contact: String
    /// Whether ``contact`` is somebody: false where the operator has given no address that push services would take.
    package var namesContact: Bool
    /// Push services that may have private addresses: names in lower case, addresses as `inet_ntop` writes them.
    package var privateHosts: Set<String>
  }

  static func webPush(_ reader: ConfigurationReader) throws(Fault) -> WebPush {
    let named = try reader.contact("webpush.contact")
    let email = reader.optionalText("operator.email").flatMap { WebPush.contact("mailto:\($0)") }
    let publicURL = try reader.url("http.public_url")
    let contact = named ?? email ?? WebPush.contact(publicURL)
    return WebPush(
      isEnabled: try reader.flag("webpush.enabled"), contact: contact ?? WebPush.nobody,
      namesContact: contact != nil, privateHosts: try reader.hosts("webpush.allow_private_hosts"))
  }
}

extension Configuration.WebPush {
  /// What stands in the place of a contact: push services refuse what has not the form of one.
  fileprivate static let nobody = "mailto:nobody@push-bouncer.invalid"
  private static let maximumContactBytes = 255

  /// A contact as it is sent: printable ASCII that is `mailto:` and an address, or an `https:` URL with a host.
  static func contact(_ text: String) -> String? {
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

  /// The address of this service as a contact; one that means nothing elsewhere is none.
  fileprivate static func contact(_ publicURL: URL?) -> String? {
    guard let publicURL, let host = publicURL.host(), host != "localhost", let hostname = try? Hostname(host),
      !hostname.isAddress
    else { return nil }
    return contact(publicURL.absoluteString)
  }

  /// The one spelling of a host without a port: that of ``Hostname``, or a name without a dot, as containers have.
  static func host(_ text: String) -> String? {
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
