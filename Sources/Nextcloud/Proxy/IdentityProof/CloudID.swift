internal import Foundation
internal import Registrations

/// A user of a Nextcloud server as `user@host[:port][/path]` (`spec/nextcloud.md` 6).
struct CloudID: Hashable {
  /// The user's id at the server, which may have an `@` in it.
  let user: String
  /// Where the server is.
  let host: Hostname
  /// The server's path, empty or with a slash before each part.
  let path: String

  init?(_ text: String) {
    guard text.utf8.count <= 512 else { return nil }
    // Some call `https://` a part of it. What it says, the server is asked by HTTPS alone.
    let text = text.replacing("@https://", with: "@", maxReplacements: 1)
    let parts = text.split(separator: "/", omittingEmptySubsequences: true)
    guard let head = parts.first, let at = head.lastIndex(of: "@"), at > head.startIndex,
      !text.hasPrefix("/"),
      let host = try? Hostname(String(head[head.index(after: at)...])),
      parts.dropFirst().allSatisfy(Self.isPlain)
    else { return nil }
    user = String(head[..<at])
    self.host = host
    path = parts.dropFirst().map { "/\($0)" }.joined()
  }

  /// Where the server tells the user's public key to everybody (`spec/nextcloud.md` 3.7).
  var keyURL: String {
    let user = user.addingPercentEncoding(withAllowedCharacters: .alphanumericsOfASCII) ?? ""
    return "https://\(host.text)\(path)/ocs/v2.php/identityproof/key/\(user)?format=json"
  }

  /// Letters, digits, `.`, `_`, `~` and `-`; not `.` or `..`, which lead elsewhere.
  private static func isPlain(_ part: Substring) -> Bool {
    part != "." && part != ".."
      && part.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
          UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"),
          UInt8(ascii: "-"):
          true
        default: false
        }
      }
  }
}

extension CharacterSet {
  fileprivate static let alphanumericsOfASCII = CharacterSet(
    charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
}
