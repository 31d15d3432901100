internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// An answer in the envelope of the Open Collaboration Services:
/// `{"ocs":{"meta":{"status","statuscode","message"},"data":...}}`, in JSON or XML.
struct OCSAnswer: Error, Sendable {
  /// HTTP's status, as `v2.php` tells it.
  var status: HTTPResponse.Status
  /// The envelope's, where it is not HTTP's.
  var statusCode: Int
  /// What `meta` says to people of a failure.
  var message: String
  /// What was asked for, or why it is not there.
  var data: JSON
  /// Headers that go along.
  var headers: HTTPFields = [:]

  /// An answer whose envelope says what HTTP says.
  init(_ status: HTTPResponse.Status, data: JSON = [], message: String = "") {
    self.status = status
    statusCode = status.code
    self.message = message
    self.data = data
  }

  /// A refusal in this envelope.
  init(_ error: APIError) {
    self.init(error.status, data: ["message": .string(error.message)], message: error.message)
    headers = error.headers
  }

  /// 400, with the name that programs go by.
  static func bad(_ name: String) -> OCSAnswer { OCSAnswer(.badRequest, data: ["message": .string(name)]) }

  /// 401, which has a number of its own.
  static var notLoggedIn: OCSAnswer {
    var answer = OCSAnswer(.unauthorized, message: "Current user is not logged in")
    answer.statusCode = 997
    return answer
  }

  /// There is no such endpoint; that has a number of its own, too.
  static var unknownPath: OCSAnswer {
    var answer = OCSAnswer(.notFound, message: "Invalid query, please check the syntax.")
    answer.statusCode = 998
    return answer
  }

  /// The answer in a format, as a version of the protocol puts it: in `v1.php` only 200 is a success, which is told
  /// as 100, and HTTP's status is 200 but for those who are not logged in and for what is no fault of theirs.
  func response(_ format: OCSFormat, _ version: OCSVersion) -> Response {
    guard status != .notModified else { return Response(status: status, headers: headers) }
    let isSuccess = version == .v1 ? status == .ok : status.kind == .successful
    var meta: JSON.Object = [
      "status": isSuccess ? "ok" : "failure",
      "statuscode": .integer(version == .v1 && isSuccess ? 100 : Int64(statusCode)),
      "message": .string(isSuccess ? "OK" : message),
    ]
    if version == .v1 {
      meta["totalitems"] = ""
      meta["itemsperpage"] = ""
    }
    let envelope: JSON = ["meta": .object(meta), "data": data]
    var all: HTTPFields = [
      .contentType: format.contentType, .cacheControl: "no-cache, no-store, must-revalidate",
    ]
    all.append(contentsOf: headers)
    let bytes =
      switch format {
      case .json: JSON.object(["ocs": envelope]).php(hexTags: true)
      case .xml: OCSXML.document(envelope)
      }
    let tellsStatus = version == .v2 || status == .unauthorized || status.kind == .serverError
    return Response(
      status: tellsStatus ? status : .ok, headers: all,
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
  }
}
