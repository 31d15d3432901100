import Basics
import HTTP
import HTTPTypes
import Hummingbird
import NIOCore
import Sealing

/// The parameters of `/devices`, from a form, a JSON object or the query string, on `DELETE` as well as on
/// `POST`. Other parameters are ignored. Names and values are compared by their bytes: comparing characters
/// would let a caller with thousands of combining marks use up much CPU.
struct DeviceParameters {
  private var values: [Name: String] = [:]
  /// Names of the caller, the most specific first: Files on Android sends it in a field too.
  let userAgents: [String]
  /// Its parameters that are not known here.
  private(set) var additions = Additions()

  private static let names: Set<Name> = [
    "pushToken", "deviceIdentifier", "deviceIdentifierSignature", "userPublicKey",
  ]

  /// Parameters that apps send and the proxy does not need, and `http.useragent`.
  private static let others: Set<Name> = ["cloudId", "format", "http.useragent"]

  init(_ request: Request, limit: Int) async throws {
    let body = try await request.wholeBody(upTo: limit)
    let fields = try Self.fields(body, type: request.headers[.contentType] ?? "")
    guard let query = request.uri.query.map({ Form.parse(Array($0.utf8)) }) ?? [] else {
      throw APIError("There are too many parameters.")
    }
    userAgents =
      [fields.last { $0.name == "http.useragent" }?.value, request.headers[.userAgent]].compactMap(\.self)
    additions.addParameters(
      (fields + query).lazy.map(\.name).filter {
        !Self.names.contains($0) && !Self.others.contains($0)
      })
    for field in fields + query where Self.names.contains(field.name) {
      let name = field.name
      let value = field.value
      guard value.isStorable else { throw APIError("\(name) has invalid format.") }
      guard values.updateValue(value, forKey: name)?.hasBytes(of: value) ?? true else {
        throw APIError("\(name) is there twice, with different values. Send it once.")
      }
    }
  }

  private static func fields(_ body: ByteBuffer, type: String) throws -> [Form.Field] {
    let bytes = body.readableBytesView
    guard type.contains(ascii: "json") || bytes.first == UInt8(ascii: "{") else {
      guard let form = Form.parse(bytes) else { throw APIError("There are too many parameters.") }
      return form
    }
    guard !bytes.isEmpty else { return [] }
    guard case .object(let object) = try? JSON.parse(body) else {
      throw APIError("The body is no JSON object. Send the parameters as a form.")
    }
    return try object.members.compactMap { member in
      switch member.value {
      case .string(let text): return Form.Field(name: member.name, value: text)
      case .null: return nil
      default:
        guard names.contains(member.name) else { return nil }
        throw APIError("\(member.name) must be a string.")
      }
    }
  }

  /// A parameter that must be present and not empty.
  func required(_ name: String) throws(APIError) -> String {
    guard let value = values[Name(name)], !value.isEmpty else { throw APIError("\(name) is missing.") }
    return value
  }
}

/// A device's identifier and its user's key, with the signature verified: what both calls of `/devices`
/// carry.
struct SignedIdentifier {
  /// The raw 64 bytes: the SHA-512 of a text that only the server knows.
  let identifier: [UInt8]
  /// Public key of the user whose server has signed the identifier.
  let userKey: RSAPublicKey

  /// Reads the parameters and verifies the signature. The server signs the text whose hash the identifier is,
  /// so the identifier is used as the digest and not hashed again.
  init(_ parameters: DeviceParameters) throws(APIError) {
    guard let identifier = Base64.decodeStrictly(try parameters.required("deviceIdentifier")),
      identifier.count == 64
    else {
      throw APIError("deviceIdentifier is malformed: it is the base64 of 64 bytes, as the server gave it.")
    }
    let pem = try parameters.required("userPublicKey")
    guard let userKey = try? RSAPublicKey(pem: pem) else {
      throw APIError(
        "userPublicKey is malformed: it is the PEM of an RSA key of 2048 to 4096 bits with the exponent 65537."
      )
    }
    guard let signature = Base64.decodeStrictly(try parameters.required("deviceIdentifierSignature")),
      signature.count == userKey.ciphertextBytes
    else {
      throw APIError(
        "deviceIdentifierSignature is malformed: it is the base64 of \(userKey.ciphertextBytes) bytes.")
    }
    guard userKey.verifies(signature, digest: identifier) else {
      throw APIError("deviceIdentifierSignature is not the signature of deviceIdentifier by userPublicKey.")
    }
    self.identifier = identifier
    self.userKey = userKey
  }
}
