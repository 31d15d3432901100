/// Under which name an OCS endpoint was called. What it does is the same; what differs is how it answers:
/// `v2.php` says with HTTP's status what became of a call, `v1.php` nearly always 200.
enum OCSVersion: String, Sendable, CaseIterable {
  case v1 = "v1.php"
  case v2 = "v2.php"

  /// By the path of a call; nil for one that is not of OCS. Doubled slashes do not count.
  init?(path: some StringProtocol) {
    let words = path.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 2)
    guard words.count > 1, words[0].elementsEqual("ocs".utf8),
      let version = Self.allCases.first(where: { words[1].elementsEqual($0.rawValue.utf8) })
    else { return nil }
    self = version
  }
}
