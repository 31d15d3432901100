package import HTTP
import HTTPTypes
package import Hummingbird

/// Errors with the same text in bouncer and chat server, and the codes that the other side acts on.
extension APIError {
  package enum Code {
    package static let missingRealm = "MISSING_REMOTE_REALM"
    package static let anothersRealm = "REMOTE_REALM_SERVER_MISMATCH_ERROR"
    package static let requestExpired = "REQUEST_EXPIRED"
    package static let invalidPublicKey = "INVALID_BOUNCER_PUBLIC_KEY"
    package static let unknownLegacyDevice = "INVALID_REMOTE_PUSH_DEVICE_TOKEN"
  }

  package static func unauthorized(_ message: String) -> APIError {
    APIError(
      .unauthorized, code: "UNAUTHORIZED", message, headers: [.wwwAuthenticate: "Basic realm=\"zulip\""])
  }

  package static var tokenDoesNotExist: APIError { APIError("Token does not exist") }

  package static func invalidFormat(_ name: String) -> APIError { APIError("\(name) has invalid format") }

  /// A code from another service's answer; `BAD_REQUEST` if the text is missing or does not have the form of a code.
  package static func code(from text: String?) -> String {
    guard let text, (1...64).contains(text.utf8.count),
      text.utf8.allSatisfy({
        (0x41...0x5A).contains($0) || (0x30...0x39).contains($0) || $0 == UInt8(ascii: "_")
      })
    else { return "BAD_REQUEST" }
    return text
  }
}

extension BasicCredentials {
  /// Those of a call, with Zulip's errors.
  package init(zulip request: Request) throws(APIError) {
    do {
      try self.init(of: request)
    } catch {
      switch error {
      case .missing: throw .unauthorized("Missing authorization header for basic auth")
      case .otherScheme: throw APIError("This endpoint requires HTTP basic authentication.")
      case .malformed: throw .unauthorized("Invalid authorization header for basic auth")
      }
    }
  }
}
