/// A text from another service that may be logged, stored and shown to people.
///
/// The service may repeat whatever it was sent, in any encoding. So runs of characters that may be a key or a token, or
/// part of one, are replaced by `...`. UUIDs and names stay.
package struct ForeignText: Sendable, CustomStringConvertible {
  /// One line of printable ASCII, of ``maximumLength`` characters at most.
  package let description: String

  /// The number of bytes that are read.
  private static let maximumRead = 4096
  package static let maximumLength = 300
  /// The shortest run that may be a secret, in characters.
  private static let shortestSecret = 20
  /// The replacement for a secret.
  private static let omission = "...".utf8

  package init(_ text: String) {
    var shown: [UInt8] = []
    var run: [UInt8] = []
    func endRun() {
      shown += Self.isSecret(run) ? Array(Self.omission) : run
      run = []
    }
    for byte in text.utf8.prefix(Self.maximumRead) {
      switch byte {
      case _ where Self.isOfRuns(byte): run.append(byte)
      // Other characters become one `?`, for their first byte.
      case 0x80..<0xC0: break
      default:
        endRun()
        shown.append(byte < 0x20 ? UInt8(ascii: " ") : byte < 0x7F ? byte : UInt8(ascii: "?"))
      }
    }
    // What was cut may be the beginning of a secret.
    if text.utf8.count <= Self.maximumRead { endRun() }
    description = String(decoding: shown.prefix(Self.maximumLength), as: UTF8.self)
  }

  /// Whether a byte may be part of a secret: a letter, a digit, or what base64, percent encoding, JSON and names add.
  private static func isOfRuns(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: "+/=_-%\\".utf8.contains(byte)
    }
  }

  private static func isSecret(_ run: [UInt8]) -> Bool {
    guard run.count >= shortestSecret else { return false }
    func has(_ range: ClosedRange<Character>) -> Bool {
      run.contains { range.contains(Character(Unicode.Scalar($0))) }
    }
    // Names and codes have no digits. A long secret may have none by chance, but then it has letters of both cases.
    guard has("0"..."9") || run.count >= 32 && has("a"..."z") && has("A"..."Z") else { return false }
    return !isUUID(run)
  }

  private static func isUUID(_ run: [UInt8]) -> Bool {
    let groups = run.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
    return groups.map(\.count) == [8, 4, 4, 4, 12]
      && groups.joined().allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
  }
}
