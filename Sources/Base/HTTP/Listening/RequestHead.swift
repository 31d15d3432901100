import HTTPTypes
import NIOHTTP1

extension HTTPRequest {
  /// What the parser has read; nil if its `Host` does not say for whom the request is. There has to be one that can be one;
  /// HTTP/1.0 may have none (RFC 9112 3.2). An empty one is none.
  init?(_ head: HTTPRequestHead) {
    guard let method = Method(head.method.rawValue) else { return nil }
    var host: String?
    var fields = HTTPFields()
    fields.reserveCapacity(head.headers.count)
    for (name, value) in head.headers {
      guard let name = HTTPField.Name(name) else { return nil }
      guard name.canonicalName == "host" else {
        fields.append(HTTPField(name: name, value: value))
        continue
      }
      guard value.utf8.allSatisfy(Self.isOfHost) else { return nil }
      if !value.isEmpty {
        guard host == nil else { return nil }
        host = value
      }
    }
    guard host != nil || head.version != .http1_1 else { return nil }
    self.init(
      method: method, scheme: "http", authority: host, path: Self.path(of: head.uri), headerFields: fields)
  }

  private static func isOfHost(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"), UInt8(ascii: "@"), UInt8(ascii: "\\"),
      UInt8(ascii: ","):
      false
    default: (0x21...0x7E).contains(byte)
    }
  }

  /// The path and query of a request's target, which may be a whole address (RFC 9112 3.2.2).
  private static func path(of target: String) -> String {
    guard target.utf8.first != UInt8(ascii: "/"), let scheme = target.firstRange(of: "://") else {
      return target
    }
    let path = target[scheme.upperBound...].drop { $0 != "/" && $0 != "?" }
    return path.first == "/" ? String(path) : "/\(path)"
  }
}

extension HTTPRequestHead {
  /// Whether another request may follow on the connection.
  ///
  /// HTTP/1.0 may keep a connection open, but does not delimit a body in chunks: a proxy that took the body's end for another
  /// place would send its next client this one's answer (RFC 9112 6.1). After CONNECT and an upgrade there is no more HTTP.
  var mayBeFollowed: Bool {
    version == .http1_1 && isKeepAlive && method != .CONNECT && !headers.contains(name: "upgrade")
  }
}
