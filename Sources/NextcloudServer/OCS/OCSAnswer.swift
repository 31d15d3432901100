internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// An answer in the envelope of the Open Collaboration Services:
/// `{"ocs":{"meta":{"status","statuscode","message"},"data":...}}`, in JSON or XML.
struct OCSAnswer: Error, Sendable {
  /// HTTP's status, as `v2.php` tells it.
  let status: HTTPResponse.Status
  /// The envelope's.
  let statusCode: Int
  /// What `meta` says to people of a failure.
  let message: String
  /// What was asked for, or why it is not there.
  let data: JSON
  var headers: HTTPFields

  /// - Parameter statusCode: nil: the envelope says what HTTP says.
  init(
    _ status: HTTPResponse.Status, _ statusCode: Int? = nil, data: JSON = [], message: String = "",
    headers: HTTPFields = [:]
  ) {
    self.status = status
    self.statusCode = statusCode ?? status.code
    self.message = message
    self.data = data
    self.headers = headers
  }

  /// A refusal in this envelope.
  init(_ error: APIError) {
    self.init(
      error.status, data: ["message": .string(error.message)], message: error.message,
      headers: error.headers)
  }

  /// 400, with the name that programs go by.
  static func bad(_ name: String) -> OCSAnswer { OCSAnswer(.badRequest, data: ["message": .string(name)]) }

  static let notLoggedIn = OCSAnswer(.unauthorized, 997, message: "Current user is not logged in")

  /// There is no such endpoint.
  static let unknownPath = OCSAnswer(.notFound, 998, message: "Invalid query, please check the syntax.")

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

/// How an OCS answer is written: as the parameter `format` says, else the first known type of the `Accept`
/// header, else XML.
enum OCSFormat: String, Sendable, CaseIterable {
  case json, xml

  init(parameter: String?, accept: String?) {
    if let parameter {
      self = Self.allCases.first { parameter.hasSameBytes(as: $0.rawValue) } ?? .xml
    } else {
      let types = (accept ?? "").utf8.split(separator: UInt8(ascii: ","))
      self = types.lazy.compactMap(Self.init(type:)).first ?? .xml
    }
  }

  /// The format of an answer to who is not let in, whose body is not looked at.
  init(ofRefused request: Request) {
    self.init(
      parameter: OCSRequest.parameter("format", ofQuery: request.uri.query),
      accept: request.headers[.accept])
  }

  /// The format of a media type; nil for any other.
  private init?(type: Substring.UTF8View) {
    let name = type.prefix { $0 != UInt8(ascii: ";") }.filter { $0 > 0x20 }.map { $0 | 0x20 }
    guard let format = Self.allCases.first(where: { name.elementsEqual("application/\($0)".utf8) }) else {
      return nil
    }
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

/// The XML that Nextcloud makes of an answer: elements named after the keys, those of a list `element`,
/// one space of indentation a level; `true` is 1, `false` empty, an empty list or object an empty element.
enum OCSXML {
  /// The document whose root, `ocs`, holds these members.
  static func document(_ envelope: JSON) -> [UInt8] {
    var output = Array("<?xml version=\"1.0\"?>\n".utf8)
    write("ocs", envelope, depth: 0, to: &output)
    return output
  }

  private static func write(_ name: String, _ value: JSON, depth: Int, to output: inout [UInt8]) {
    let indentation = String(repeating: " ", count: depth)
    let children: [(String, JSON)]
    switch value {
    case .array(let elements): children = elements.map { ("element", $0) }
    case .object(let object): children = object.members.map { ($0.name.text, $0.value) }
    case .null: children = []
    default:
      output += "\(indentation)<\(name)>\(text(of: value))</\(name)>\n".utf8
      return
    }
    guard !children.isEmpty else { return output += "\(indentation)<\(name)/>\n".utf8 }
    output += "\(indentation)<\(name)>\n".utf8
    for (name, value) in children { write(name, value, depth: depth + 1, to: &output) }
    output += "\(indentation)</\(name)>\n".utf8
  }

  private static func text(of value: JSON) -> String {
    switch value {
    case .string(let text): escaped(text)
    case .bool(let value): value ? "1" : ""
    default: value.text
    }
  }

  private static func escaped(_ text: String) -> String {
    text.escapedForMarkup { scalar in
      switch scalar {
      case "\r": "&#13;"
      case "\t", "\n", " "...: nil
      default: "\u{FFFD}"  // XML has no way to write it
      }
    }
  }
}

extension String {
  /// The text as HTML and XML have it between tags and in attributes.
  ///
  /// - Parameter replacement: what only one of them writes in another way; nil for what stays.
  func escapedForMarkup(_ replacement: (Unicode.Scalar) -> String?) -> String {
    unicodeScalars.reduce(into: "") { result, scalar in
      switch scalar {
      case "&": result += "&amp;"
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "\"": result += "&quot;"
      default: result += replacement(scalar) ?? String(scalar)
      }
    }
  }
}

/// Tells who calls an endpoint that is not there so in the envelope that its kind of client reads. That it is not there
/// by that method is told without a body.
struct UnknownOCSPaths: RouterMiddleware {
  func handle(
    _ request: Request, context: WireContext, next: (Request, WireContext) async throws -> Response
  ) async throws -> Response {
    guard let version = OCSVersion(path: request.uri.path) else { return try await next(request, context) }
    do {
      let response = try await next(request, context)
      guard response.status == .methodNotAllowed else { return response }
      var refusal = Response(status: response.status)
      refusal.headers[.allow] = response.headers[.allow]
      return refusal
    } catch let error as HTTPError where error.status == .notFound {
      return OCSAnswer.unknownPath.response(OCSFormat(ofRefused: request), version)
    }
  }
}
