/// The name under which a chat server is reached: `host` or `host:port`, as Django's URL validator
/// takes it (`spec/zulip.md` B.1). A host is a name with a dot, `localhost`, or an IP address.
public struct Hostname: Sendable, Hashable {
  /// Why a text is no hostname.
  public enum Malformed: Error, Hashable {
    /// It has a path, a query or a fragment.
    case components
    /// It is no host with an optional port.
    case invalid
  }

  /// As it was spelled.
  public let text: String
  /// The host without the port; an IPv6 address without its brackets.
  public let host: String
  /// The port, if one is named.
  public let port: Int?

  /// Two hostnames are the same if these are (`spec/decisions.md`: without regard to case).
  public var canonical: String { text.lowercased() }

  /// Reads a hostname.
  public init(_ text: String) throws(Malformed) {
    if text.utf8.contains(where: { "/?#".utf8.contains($0) }) { throw .components }
    let (host, port) = Self.split(text)
    if let port {
      guard (1...5).contains(port.utf8.count), port.utf8.allSatisfy(Self.isDigit),
        let number = Int(port), (1...65535).contains(number)
      else { throw .invalid }
      self.port = number
    } else {
      self.port = nil
    }
    guard host.utf8.count <= 253 else { throw .invalid }
    if host.first == "[" {
      self.host = String(host.dropFirst().dropLast())
      guard host.last == "]", IPAddress(self.host)?.isIPv6 == true else { throw .invalid }
    } else {
      self.host = String(host)
      guard Self.isHost(host) else { throw .invalid }
    }
    self.text = text
  }

  /// Splits at the colon before a port; colons inside brackets belong to an address.
  private static func split(_ text: String) -> (host: Substring, port: Substring?) {
    guard let colon = text.lastIndex(of: ":"), text.lastIndex(of: "]").map({ $0 < colon }) ?? true else {
      return (text[...], nil)
    }
    return (text[..<colon], text[text.index(after: colon)...])
  }

  private static func isHost(_ host: Substring) -> Bool {
    if host.lowercased() == "localhost" { return true }
    var labels = host.split(separator: ".", omittingEmptySubsequences: false)
    if labels.count == 4, labels.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(isDigit) }) {
      return IPAddress(String(host)) != nil
    }
    if labels.last?.isEmpty == true { labels.removeLast() }
    guard labels.count >= 2, labels.allSatisfy(isLabel), let top = labels.last?.lowercased() else {
      return false
    }
    return top.hasPrefix("xn--") ? top.utf8.count > 4 : top.count >= 2 && !top.utf8.contains(where: isDigit)
  }

  private static func isLabel(_ label: Substring) -> Bool {
    (1...63).contains(label.count) && label.first != "-" && label.last != "-"
      && label.unicodeScalars.allSatisfy { scalar in
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "-", "\u{a1}"..."\u{ffff}": true
        default: false
        }
      }
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}
