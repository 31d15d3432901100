/// What another service has said, for people: to be logged, kept and passed on.
///
/// It may say again whatever it was sent, in any encoding. So runs of characters that may be a key or a token, or part of
/// one, are left out. UUIDs and names stay.
package struct ForeignText: Sendable, CustomStringConvertible {
  /// One line of printable ASCII, of ``maximumLength`` characters at most.
  package let description: String

  /// Bytes that are read.
  private static let maximumRead = 4096
  package static let maximumLength = 300
  /// Shorter ones are no secrets.
  private static let shortestSecret = 20
  /// What stands in the place of a secret.
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
      // Of other characters the first byte stands for all.
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

  /// Letters, digits, and what base64, percent encoding, JSON and names have in addition.
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
    // Names and codes are words; by chance a long secret has no digits, but then letters of both cases.
    guard has("0"..."9") || run.count >= 32 && has("a"..."z") && has("A"..."Z") else { return false }
    return !isUUID(run)
  }

  private static func isUUID(_ run: [UInt8]) -> Bool {
    let groups = run.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
    return groups.map(\.count) == [8, 4, 4, 4, 12]
      && groups.joined().allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
  }
}
