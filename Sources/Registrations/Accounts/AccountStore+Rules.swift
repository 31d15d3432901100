internal import Foundation

extension AccountStore {
  /// Whether a text can be a realm's address: an `http` or `https` URL of at most 1024 bytes.
  package static func isURL(_ text: String) -> Bool {
    guard text.utf8.count <= 1024, let url = URL(string: text, encodingInvalidCharacters: false),
      let scheme = url.scheme?.lowercased(), let host = url.host()
    else { return false }
    return ["http", "https"].contains(scheme) && !host.isEmpty
  }

  /// Whether a text can be a user's email: 3 to 254 characters around one `@`, without white space,
  /// control characters, and the colon that would end it in an `Authorization` header.
  package static func isEmail(_ text: String) -> Bool {
    let scalars = text.unicodeScalars
    return (3...254).contains(scalars.count) && scalars.first != "@" && scalars.last != "@"
      && scalars.count { $0 == "@" } == 1
      && !scalars.contains { $0 == ":" || $0.properties.isWhitespace || isControl($0) }
  }

  /// Whether a text can be a username: 1 to 254 characters of those that an email may have, but for `/`, which
  /// would end it in an address, and the names `.` and `..`, which would lead elsewhere there.
  package static func isUsername(_ text: String) -> Bool {
    let scalars = text.unicodeScalars
    return (1...254).contains(scalars.count) && scalars.allSatisfy(canBeInUsername)
      && !scalars.elementsEqual(".".unicodeScalars) && !scalars.elementsEqual("..".unicodeScalars)
  }

  /// The usernames of a user who is given none, the most welcome first: what the email begins with, all of it,
  /// and one that nobody else has.
  static func usernames(for email: String, _ uuid: UUID) -> [String] {
    [String(email.unicodeScalars.prefix { $0 != "@" }), email].map { text in
      var name = String.UnicodeScalarView()
      name.append(contentsOf: text.unicodeScalars.map { canBeInUsername($0) ? $0 : "_" })
      return String(name)
    }.filter(isUsername) + [uuid.canonical]
  }

  private static func canBeInUsername(_ scalar: Unicode.Scalar) -> Bool {
    scalar != ":" && scalar != "/" && !scalar.properties.isWhitespace && !isControl(scalar)
  }

  /// Whether a text can be an API key: 32 ASCII letters and digits.
  package static func isAPIKey(_ text: String) -> Bool {
    text.utf8.count == apiKeyLength && text.utf8.allSatisfy(isAlphanumeric)
  }

  /// Whether a number can be a user's in the chat.
  package static func isUserID(_ number: Int64) -> Bool {
    (0...Int64(Int32.max)).contains(number)
  }

  /// Whether a text can stand where people read it: it has no control characters, of which U+0000
  /// cannot even be stored.
  package static func isReadable(_ text: String) -> Bool {
    !text.unicodeScalars.contains(where: isControl)
  }

  private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.generalCategory == .control
  }

  private static func isAlphanumeric(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: false
    }
  }
}
