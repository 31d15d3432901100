internal import HTTP
internal import HTTPTypes
internal import Hummingbird

/// How an OCS answer is written: as the parameter `format` says, else the first known type of the `Accept`
/// header, else XML.
enum OCSFormat: String, Sendable, CaseIterable {
  case json, xml

  init(parameter: String?, accept: String?) {
    if let parameter {
      self = Self.allCases.first { parameter.hasSameBytes(as: $0.rawValue) } ?? .xml
      return
    }
    self =
      (accept ?? "").utf8.split(separator: UInt8(ascii: ",")).lazy.compactMap(Self.init(type:)).first ?? .xml
  }

  /// Bytes of a query and of an `Accept` header that are looked at for a request that is refused.
  private static let maximumOfRefused = 512

  /// The format of an answer to who is not let in, for which little is looked at.
  init(ofRefused request: Request) {
    let query = (request.uri.query).flatMap { $0.utf8.count <= Self.maximumOfRefused ? $0 : nil }
    let accept = request.headers[.accept].flatMap { $0.utf8.count <= Self.maximumOfRefused ? $0 : nil }
    self.init(parameter: OCSRequest.parameter("format", ofQuery: query), accept: accept)
  }

  /// The format of a media type; nil for any other.
  private init?(type: Substring.UTF8View) {
    let type = type.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)[0]
      .filter { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\t") }
    guard
      let name = String(decoding: type, as: UTF8.self).dropping(prefix: "application/"),
      let format = Self.allCases.first(where: {
        name.utf8.elementsEqual($0.rawValue.utf8) { $0 | 0x20 == $1 }
      })
    else { return nil }
    self = format
  }

  var contentType: String { "application/\(rawValue); charset=utf-8" }
}

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
