import Basics
import HTTP
import HTTPTypes
import Hummingbird
import NIOCore

/// An answer in the envelope of the Open Collaboration Services:
/// `{"ocs":{"meta":{"status","statuscode","message"},"data":...}}`, in JSON or XML.
struct OCSAnswer: Error, Sendable {
  /// HTTP status, as with `v2.php`.
  let status: HTTPResponse.Status
  /// Status code in the envelope.
  let statusCode: Int
  /// Error text in `meta`, for people.
  let message: String
  /// The result, or details of an error.
  let data: JSON
  var headers: HTTPFields

  /// - Parameter statusCode: nil: the same as the HTTP status.
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

  /// Converts an error into this envelope.
  init(_ error: APIError) {
    self.init(
      error.status, data: ["message": .string(error.message)], message: error.message,
      headers: error.headers)
  }

  /// A 400 with a machine-readable name of the error.
  static func bad(_ name: String) -> OCSAnswer { OCSAnswer(.badRequest, data: ["message": .string(name)]) }

  static let notLoggedIn = OCSAnswer(.unauthorized, 997, message: "Current user is not logged in")

  static let unknownPath = OCSAnswer(.notFound, 998, message: "Invalid query, please check the syntax.")

  /// Renders the answer for a version of the protocol. With `v1.php` only 200 is a success and has the code
  /// 100, and the HTTP status is 200 except for 401 and server errors.
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

/// Format of an OCS answer: the parameter `format`, else the first known type of the `Accept` header, else
/// XML.
enum OCSFormat: String, Sendable, CaseIterable {
  case json, xml

  init(parameter: String?, accept: String?) {
    if let parameter {
      self = Self.allCases.first { parameter.hasBytes(of: $0.rawValue) } ?? .xml
    } else {
      let types = (accept ?? "").utf8.split(separator: UInt8(ascii: ","))
      self = types.lazy.compactMap(Self.init(type:)).first ?? .xml
    }
  }

  /// The format for a refused caller, whose body is not read.
  init(ofRefused request: Request) {
    self.init(
      parameter: OCSRequest.parameter("format", ofQuery: request.uri.query),
      accept: request.headers[.accept])
  }

  /// The format of a media type; nil if it is unknown.
  private init?(type: Substring.UTF8View) {
    let name = type.prefix { $0 != UInt8(ascii: ";") }.filter { $0 > 0x20 }.map { $0 | 0x20 }
    guard let format = Self.allCases.first(where: { name.elementsEqual("application/\($0)".utf8) }) else {
      return nil
    }
    self = format
  }

  var contentType: String { "application/\(rawValue); charset=utf-8" }
}

/// The version under which an OCS endpoint is called. Both do the same but answer differently: `v2.php` uses
/// the HTTP status, `v1.php` nearly always answers 200.
enum OCSVersion: String, Sendable, CaseIterable {
  case v1 = "v1.php"
  case v2 = "v2.php"

  /// Reads the version from a path; nil if it is no OCS path. Repeated slashes count as one.
  init?(path: some StringProtocol) {
    let words = path.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 2)
    guard words.count > 1, words[0].elementsEqual("ocs".utf8),
      let version = Self.allCases.first(where: { words[1].elementsEqual($0.rawValue.utf8) })
    else { return nil }
    self = version
  }
}

/// Encodes an answer as XML like Nextcloud: elements named after the keys, those of a list `element`, one
/// space of indentation a level; `true` is 1, `false` empty, an empty list or object an empty element.
enum OCSXML {
  /// The document with the root `ocs` and these members.
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

  /// Escaped for XML, between tags.
  private static func escaped(_ text: String) -> String {
    text.unicodeScalars.reduce(into: "") { result, scalar in
      switch scalar {
      case "&": result += "&amp;"
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "\"": result += "&quot;"
      case "\r": result += "&#13;"
      case "\t", "\n", " "...: result.unicodeScalars.append(scalar)
      default: result += "\u{FFFD}"  // XML has no way to write it
      }
    }
  }
}

/// Answers calls of unknown OCS endpoints in the OCS envelope. A known path with a wrong method gets 405
/// without a body.
struct UnknownOCSPaths: Layer {
  func answer(
    _ request: Request, _ context: WireContext, _ next: Routes.Handler
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
