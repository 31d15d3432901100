internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Wire

/// A call of an OCS endpoint: its parameters, of the query and of the body, whose fields go before those of
/// the query. A body is a form or JSON.
struct OCSRequest: Sendable {
  private let parameters: [String: String]
  /// How its answer is written.
  let format: OCSFormat
  /// What sends it.
  let userAgent: String

  /// Reads a request.
  init(_ request: Request, limit: Int) async throws {
    let query = request.uri.query.flatMap { Form.parse(Array($0.utf8)) } ?? []
    let body = try await request.body.collect(upTo: limit)
    let fields = query + Self.fields(of: body, type: request.headers[.contentType] ?? "")
    parameters = Dictionary(fields, uniquingKeysWith: { $1 })
    format = OCSFormat(parameter: parameters["format"], accept: request.headers[.accept])
    userAgent = request.headers[.userAgent] ?? ""
  }

  /// A text parameter; empty if it was not sent, which no check lets pass.
  subscript(name: String) -> String { parameters[name] ?? "" }

  private static func fields(of body: ByteBuffer, type: String) -> [(String, String)] {
    let type = type.prefix { $0 != ";" && $0 != " " }.lowercased()
    if type == "application/json" || (type.hasPrefix("application/") && type.hasSuffix("+json")) {
      guard case .object(let object)? = try? JSON.parse(body) else { return [] }
      return object.members.compactMap { member in
        switch member.value {
        case .string(let text): (member.name, text)
        case .integer(let number): (member.name, String(number))
        default: nil
        }
      }
    }
    guard type.isEmpty || type == "application/x-www-form-urlencoded" else { return [] }
    return (Form.parse(body.readableBytesView) ?? []).map { ($0.name, $0.value) }
  }
}
