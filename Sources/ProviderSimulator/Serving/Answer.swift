import NIOCore

/// A provider's answer, for either version of HTTP.
struct Answer: Sendable {
  var status: Int
  /// Names in lower case.
  var headers: [(name: String, value: String)] = []
  var body: ByteBuffer?
  /// Pause before it is sent.
  var delayMilliseconds = 0

  /// A proxy's error page.
  static func html(_ status: Int) -> Answer {
    let page = "<!DOCTYPE html><html><head><title>Error \(status)</title></head><body><h1>Error \(status)</h1></body></html>"
    return Answer(
      status: status, headers: [("content-type", "text/html; charset=UTF-8")], body: ByteBuffer(string: page))
  }
}
