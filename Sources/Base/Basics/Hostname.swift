package import Foundation

/// The name under which a chat server is reached: `host` or `host:port`. A host is a name with a dot,
/// `localhost`, or an IP address.
///
/// All spellings of a name have one value: lower case, no final dot, addresses as `inet_ntop` writes them,
/// the port without leading zeros and left out if it is 443. So nobody gets another's name by spelling it
/// differently. Only ASCII is accepted: international names come as A-labels (`xn--...`, RFC 5890), as in DNS
/// and in `Host`.
package struct Hostname: Sendable, Hashable {
  /// Why a text is not a hostname.
  package enum Malformed: Error, Hashable {
    /// It has a path, a query or a fragment.
    case components
    /// It has non-ASCII characters.
    case notASCII
    /// It is not a host with an optional port.
    case invalid
  }

  /// The host, with the port unless that is 443.
  package let text: String
  /// The host without the port; an IPv6 address without its brackets.
  package let host: String
  /// The port, if it is not 443.
  package let port: Int?

  package init(_ text: String) throws(Malformed) {
    let bytes = text.utf8.prefix(Self.maximumBytes + 1)
    if bytes.contains(where: { "/?#".utf8.contains($0) }) { throw .components }
    guard bytes.allSatisfy({ $0 < 0x80 }) else { throw .notASCII }
    guard bytes.count <= Self.maximumBytes else { throw .invalid }
    let (name, digits) = Self.split(text.lowercased())
    port = try digits.flatMap(Self.readPort)
    if name.first == "[" {
      guard name.last == "]", let address = IPAddress(String(name.dropFirst().dropLast())), address.isIPv6
      else { throw .invalid }
      host = address.text
    } else {
      guard let name = Self.readName(name) else { throw .invalid }
      host = String(name)
    }
    let bracketed = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
    self.text = port.map { "\(bracketed):\($0)" } ?? bracketed
  }

  /// The longest name, its final dot and a port.
  private static let maximumBytes = 260
  private static let maximumNameBytes = 253
  private static let defaultPort = 443
  private static let digits = Set("0123456789".utf8)
  private static let labelBytes = digits.union("abcdefghijklmnopqrstuvwxyz-".utf8)

  /// Splits at the colon before a port; colons inside brackets belong to an address.
  private static func split(_ text: String) -> (name: Substring, port: Substring?) {
    guard let colon = text.lastIndex(of: ":"), text[colon...].lastIndex(of: "]") == nil else {
      return (text[...], nil)
    }
    return (text[..<colon], text[colon...].dropFirst())
  }

  /// Reads a port; nil if it is the default.
  private static func readPort(_ text: Substring) throws(Malformed) -> Int? {
    guard (1...5).contains(text.utf8.count), isNumber(text), let number = Int(text),
      (1...65535).contains(number)
    else { throw .invalid }
    return number == defaultPort ? nil : number
  }

  /// Reads a name without its final dot, or an IPv4 address.
  private static func readName(_ name: Substring) -> Substring? {
    guard name.utf8.count <= maximumNameBytes else { return nil }
    if name == "localhost" { return name }
    var labels = name.split(separator: ".", omittingEmptySubsequences: false)
    if labels.count == 4, labels.allSatisfy(isNumber) {
      return IPAddress(String(name)) != nil ? name : nil
    }
    let isAbsolute = labels.last == ""
    if isAbsolute { labels.removeLast() }
    guard labels.count >= 2, labels.allSatisfy(isLabel), let top = labels.last else { return nil }
    let isTop =
      top.hasPrefix("xn--")
      ? top.utf8.count > 4 : top.utf8.count >= 2 && !top.utf8.contains(where: digits.contains)
    return isTop ? name.dropLast(isAbsolute ? 1 : 0) : nil
  }

  private static func isLabel(_ label: Substring) -> Bool {
    (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
      && label.utf8.allSatisfy(labelBytes.contains)
  }

  private static func isNumber(_ text: Substring) -> Bool {
    !text.isEmpty && text.utf8.allSatisfy(digits.contains)
  }
}

extension Hostname {
  /// The spelling under which a name is stored and looked up: its hostname. A text that is not a hostname, as some imported
  /// ones are, is kept in lower case, and nobody can register with it.
  package static func key(of text: String) -> String {
    Self(international: text)?.text ?? text.lowercased()
  }

  /// A name below `.invalid`, which nobody can have (RFC 6761), for a server whose own name belongs to
  /// another one; it contains the original name, for people.
  package static func substitute(for text: String, server: UUID) -> String {
    let name = "\(server.hyphenated).invalid"
    guard let own = try? Self(text), let both = try? Self("\(own.host).\(name)") else { return name }
    return both.text
  }

  /// The hostname for an international spelling (UTS #46, non-transitional); nil if it is invalid.
  ///
  /// For texts that may be spelled so: mail domains, operators' input, and hostnames stored before they were
  /// ASCII.
  package init?(international text: String) {
    if let hostname = try? Self(text) {
      self = hostname
      return
    }
    guard text.utf8.count <= Self.maximumBytes, !text.utf8.contains(where: { "/?#@%\\".utf8.contains($0) })
    else {
      return nil
    }
    guard let url = URL(string: "https://\(text)"), url.path().isEmpty,
      let host = url.host(percentEncoded: false)
    else { return nil }
    let bracketed = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
    try? self.init(url.port.map { "\(bracketed):\($0)" } ?? bracketed)
  }
}

/// A pattern of hostnames that may register: one hostname, or `*.example.org` for every name below that domain.
///
/// The port must match too: a pattern without a port matches hostnames without one.
package struct HostnamePattern: Sendable, Hashable {
  /// The hostname, or the parent domain.
  private let hostname: Hostname
  private let isDomain: Bool

  package init(_ text: String) throws(Hostname.Malformed) {
    isDomain = text.utf8.starts(with: "*.".utf8)
    hostname = try Hostname(isDomain ? "x\(text.dropFirst())" : text)
  }

  package func matches(_ other: Hostname) -> Bool {
    guard isDomain else { return other == hostname }
    let domain = hostname.host.utf8.dropFirst()
    return other.port == hostname.port && other.host.utf8.count > domain.count
      && other.host.utf8.suffix(domain.count).elementsEqual(domain)
  }
}
