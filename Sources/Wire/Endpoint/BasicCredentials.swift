import Foundation
import HTTPTypes
public import Hummingbird

/// The two halves of an `Authorization: Basic` header (RFC 7617), read with upstream's errors
/// (`spec/zulip.md` A.5).
public struct BasicCredentials: Sendable {
  /// What stands before the colon.
  public let user: String
  /// What stands after it.
  public let password: String

  /// Reads the header of a request to an endpoint that wants it.
  public init(of request: Request) throws(APIError) {
    guard let header = request.headers[.authorization] else {
      throw .unauthorized("Missing authorization header for basic auth")
    }
    let words = header.split(whereSeparator: \.isWhitespace)
    if let scheme = words.first, scheme.lowercased() != "basic" {
      throw APIError("This endpoint requires HTTP basic authentication.")
    }
    guard words.count == 2, let data = Data(base64Encoded: String(words[1])),
      let text = String(validating: data, as: UTF8.self)
    else { throw Self.invalid }
    let halves = text.split(separator: ":", omittingEmptySubsequences: false)
    guard halves.count == 2 else { throw Self.invalid }
    user = String(halves[0])
    password = String(halves[1])
  }

  private static var invalid: APIError { .unauthorized("Invalid authorization header for basic auth") }
}
