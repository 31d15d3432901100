import HTTPTypes
package import Hummingbird
import NIOCore

/// The answers that Zulip's clients and servers know: `{"result", "msg", ...}`, compact, with a
/// newline at the end (`Documentation/Protocols/Zulip.md` 2.2).
package enum Envelope {
  private static let headers: HTTPFields = [
    .contentType: "application/json",
    .cacheControl: "max-age=0, no-cache, no-store, must-revalidate, private",
  ]

  /// 200 with what the caller asked for.
  package static func success(_ members: [JSON.Object.Member] = []) -> Response {
    response(.ok, [.init("result", "success"), .init("msg", "")] + members)
  }

  /// Any status with any members and nothing else; not to be kept by anyone on the way.
  package static func response(
    _ status: HTTPResponse.Status, _ members: [JSON.Object.Member], headers additional: HTTPFields = [:]
  ) -> Response {
    var bytes = JSON.object(JSON.Object(members)).bytes
    bytes.append(UInt8(ascii: "\n"))
    var headers = headers
    headers.append(contentsOf: additional)
    return Response(
      status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
  }
}
