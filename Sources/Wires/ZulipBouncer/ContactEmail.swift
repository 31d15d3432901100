import Basics
import HTTP
import HTTPClient
import Providers
import Registrations

/// A contact email that Django's validator would accept (`Documentation/Protocols/Zulip.md` 3.2).
struct ContactEmail {
  let text: String

  init(parameter text: String) throws(APIError) {
    guard text.utf8.count <= 320, let at = text.lastIndex(of: "@"),
      Self.isLocalPart(text[..<at]), Self.isDomain(text[text.index(after: at)...])
    else { throw APIError("Enter a valid email address.") }
    self.text = text
  }

  /// RFC 5322's dot-atom.
  private static func isLocalPart(_ text: Substring) -> Bool {
    text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { atom in
      !atom.isEmpty
        && atom.unicodeScalars.allSatisfy { scalar in
          switch scalar {
          case "a"..."z", "A"..."Z", "0"..."9": true
          default: "!#$%&'*+/=?^_`{}|~-".unicodeScalars.contains(scalar)
          }
        }
    }
  }

  private static func isDomain(_ text: Substring) -> Bool {
    if text.first == "[", text.last == "]" { return IPAddress(String(text.dropFirst().dropLast())) != nil }
    guard text.unicodeScalars.allSatisfy({ $0 != ":" && $0 != "[" }), text.last != "." else { return false }
    return Hostname(international: String(text)) != nil
  }
}
