internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Wire

/// An answer in the envelope of the Open Collaboration Services (`spec/nextcloud.md` 3.1):
/// `{"ocs":{"meta":{"status","statuscode","message"},"data":...}}`, in JSON or XML.
struct OCSAnswer: Error, Sendable {
  /// HTTP's status.
  var status: HTTPResponse.Status
  /// The envelope's, where it is not HTTP's.
  var statusCode: Int
  /// What `meta` says to people.
  var message: String
  /// What was asked for, or why it is not there.
  var data: JSON
  /// Headers that go along.
  var headers: HTTPFields = [:]

  /// An answer whose envelope says what HTTP says.
  init(_ status: HTTPResponse.Status, data: JSON = [], message: String? = nil) {
    self.status = status
    statusCode = status.code
    self.message = message ?? (status.kind == .successful ? "OK" : "")
    self.data = data
  }

  /// 400, with the name that programs go by.
  static func bad(_ name: String) -> OCSAnswer { OCSAnswer(.badRequest, data: ["message": .string(name)]) }

  /// 401, which has a number of its own.
  static var notLoggedIn: OCSAnswer {
    var answer = OCSAnswer(.unauthorized, message: "Current user is not logged in")
    answer.statusCode = 997
    return answer
  }

  /// The answer in a format.
  func response(_ format: OCSFormat) -> Response {
    let envelope: JSON = [
      "meta": [
        "status": status.kind == .successful ? "ok" : "failure", "statuscode": .integer(Int64(statusCode)),
        "message": .string(message),
      ],
      "data": data,
    ]
    var all: HTTPFields = [
      .contentType: format.contentType, .cacheControl: "no-cache, no-store, must-revalidate",
    ]
    all.append(contentsOf: headers)
    let bytes =
      switch format {
      case .json: JSON.object(["ocs": envelope]).php(hexTags: true)
      case .xml: OCSXML.document(envelope)
      }
    return Response(status: status, headers: all, body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
  }
}
