import Foundation
import HTTPTypes
package import Hummingbird

/// The two halves of an `Authorization: Basic` header (RFC 7617), read with upstream's errors.
package struct BasicCredentials: Sendable {
  /// What stands before the colon.
  package let user: String
  /// What stands after it.
  package let password: String

  /// Reads the header of a request to an endpoint that wants it.
  package init(of request: Request) throws(APIError) {
    guard let header = request.headers.value(.authorization) else {
      throw .unauthorized("Missing authorization header for basic auth")
    }
    // By bytes: this stands before every request, and comparing characters costs ten times as much.
    let words = header.utf8.split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    if let scheme = words.first, !scheme.elementsEqual("basic".utf8, by: { $0 | 0x20 == $1 }) {
      throw APIError("This endpoint requires HTTP basic authentication.")
    }
    guard words.count == 2, let bytes = Data(base64Encoded: Data(words[1])),
      let colon = bytes.firstIndex(of: UInt8(ascii: ":")), !bytes[(colon + 1)...].contains(UInt8(ascii: ":")),
      let user = String(validating: bytes[..<colon], as: UTF8.self),
      let password = String(validating: bytes[(colon + 1)...], as: UTF8.self), user.isStorable,
      password.isStorable
    else { throw Self.invalid }
    self.user = user
    self.password = password
  }

  private static var invalid: APIError { .unauthorized("Invalid authorization header for basic auth") }
}
