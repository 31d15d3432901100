/// The address that a push service has given a subscription: an https URL, which is a secret of its phone.
package struct WebPushEndpoint: Sendable, Hashable {
  /// Longer ones are refused, in bytes.
  package static let maximumBytes = 765

  /// As it was spelled.
  package let url: String
  /// The push service, in lower case and without a final dot; an IPv6 address without brackets.
  package let host: String
  package let port: Int
  /// What the origin consists of, besides the scheme: the host, and the port where it is not 443.
  package let authority: String
  /// The path with the query: what a request asks for.
  let path: String

  /// The origin (RFC 6454), which VAPID tokens are made for.
  package var origin: String { "https://\(authority)" }

  /// Reads an https URL in ASCII with a host, and without user, password and fragment; nil for any other.
  package init?(_ url: String) {
    let scheme = "https://"
    guard url.utf8.count <= Self.maximumBytes, url.utf8.allSatisfy(Self.isPlain),
      url.hasPrefix(scheme)
    else { return nil }
    let rest = url.dropFirst(scheme.count)
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    guard let (host, port) = Self.hostAndPort(rest[..<end]) else { return nil }
    self.url = url
    (self.host, self.port) = (host, port)
    let name = host.contains(":") ? "[\(host)]" : host
    authority = port == 443 ? name : "\(name):\(port)"
    path = rest[end...].hasPrefix("/") ? String(rest[end...]) : "/" + rest[end...]
  }

  /// Whether a byte may stand in an endpoint: visible ASCII but `#`, `\` and what RFC 3986 leaves out.
  private static func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "#"), UInt8(ascii: "\\"), UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"),
      UInt8(ascii: "^"), UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
      false
    default: (0x21...0x7e).contains(byte)
    }
  }

  private static func hostAndPort(_ authority: Substring) -> (host: String, port: Int)? {
    var host = authority
    var port = 443
    let bracket = authority.lastIndex(of: "]")
    if let colon = authority[(bracket ?? authority.startIndex)...].lastIndex(of: ":") {
      let digits = authority[authority.index(after: colon)...]
      guard digits.utf8.count <= 5, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
        let number = digits.isEmpty ? 443 : Int(digits), (1...65535).contains(number)
      else { return nil }
      (host, port) = (authority[..<colon], number)
    }
    if bracket != nil {
      guard host.first == "[", host.last == "]" else { return nil }
      let address = host.dropFirst().dropLast().lowercased()
      // In one spelling.
      guard let address = IPAddress(address), address.isIPv6 else { return nil }
      return (address.text, port)
    }
    if host.last == "." { host = host.dropLast() }
    let labels = host.split(separator: ".", omittingEmptySubsequences: false)
    guard (1...253).contains(host.utf8.count),
      labels.allSatisfy({ (1...63).contains($0.utf8.count) && $0.utf8.allSatisfy(isInName) })
    else { return nil }
    return (host.lowercased(), port)
  }

  private static func isInName(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
      true
    default: false
    }
  }
}
