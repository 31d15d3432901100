/// Hostnames that may register: one hostname, or `*.example.org` for every name below that domain.
///
/// A port is part of a hostname: a pattern without one is for hostnames without one.
package struct HostnamePattern: Sendable, Hashable {
  /// The hostname, or one below the domain.
  private let hostname: Hostname
  private let isDomain: Bool

  /// Reads a pattern.
  package init(_ text: String) throws(Hostname.Malformed) {
    isDomain = text.utf8.starts(with: "*.".utf8)
    hostname = try Hostname(isDomain ? "x\(text.dropFirst())" : text)
  }

  /// Whether a hostname fits.
  package func matches(_ other: Hostname) -> Bool {
    guard isDomain else { return other == hostname }
    let domain = hostname.host.utf8.dropFirst()
    return other.port == hostname.port && other.host.utf8.count > domain.count
      && other.host.utf8.suffix(domain.count).elementsEqual(domain)
  }
}
