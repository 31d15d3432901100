internal import Foundation
internal import Providers

/// The rules for the proxy that a phone names: an `https` URL of a public host
/// (`Documentation/Protocols/Nextcloud.md` 5.4).
enum ProxyAddress {
  /// Bytes in a URL.
  static let maximumBytes = 256

  private static let localDomains: Set<Substring> = [
    "local", "localhost", "intranet", "internal", "private", "corp", "home", "lan",
  ]

  /// Whether a phone may name this proxy.
  ///
  /// - Parameter allowsLocal: whether any `http` and `https` URL will do.
  static func isValid(_ text: String, allowsLocal: Bool) -> Bool {
    // Case counts, as in Nextcloud; what is not ASCII, spaces and control characters have no place in a URL.
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

  /// An address, or labels of letters, digits and hyphens.
  private static func isHost(_ host: String) -> Bool {
    if IPAddress(host) != nil { return true }
    let labels = host.split(separator: ".", omittingEmptySubsequences: false)
    return host.utf8.count <= 253
      && labels.enumerated().allSatisfy { index, label in
        if label.isEmpty { return index > 0 && index == labels.count - 1 }
        return label.utf8.count <= 63 && label.first != "-" && label.last != "-"
          && label.utf8.allSatisfy(isLabelByte)
      }
  }

  private static func isLabelByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"):
      true
    default: false
    }
  }

  private static func isPublic(_ host: String) -> Bool {
    if let address = IPAddress(host) { return address.isPublic }
    let labels = host.lowercased().split(separator: ".")
    guard labels.count > 1, let last = labels.last else { return false }
    // A name that ends in a number is an address in some other spelling.
    return !localDomains.contains(last) && !last.utf8.allSatisfy { (0x30...0x39).contains($0) }
      && !last.hasPrefix("0x")
  }
}
