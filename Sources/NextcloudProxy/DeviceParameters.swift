internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Sealing

/// The parameters of `/devices`, from a form, a JSON object or the query string, on `DELETE` as well as on
/// `POST`. Other parameters are ignored. Names and values are compared by their bytes: comparing characters
/// would let a caller with thousands of combining marks use up much CPU.
struct DeviceParameters {
  private var values: [Name: String] = [:]
  /// Names of the caller, the most specific first: Files on Android sends it in a field too.
  let userAgents: [String]

  private static let names: Set<Name> = [
    "pushToken", "deviceIdentifier", "deviceIdentifierSignature", "userPublicKey",
  ]

  init(_ request: Request, limit: Int) async throws {
    let body = try await request.wholeBody(upTo: limit)
    let fields = try Self.fields(body, type: request.headers[.contentType] ?? "")
    guard let query = request.uri.query.map({ Form.parse(Array($0.utf8)) }) ?? [] else {
      throw ProxyError("There are too many parameters.")
    }
    userAgents =
      [fields.last { $0.name == "http.useragent" }?.value, request.headers[.userAgent]].compactMap(\.self)
    for field in fields + query where Self.names.contains(field.name) {
      let (name, value) = (field.name, field.value)
      guard value.isStorable else { throw ProxyError("\(name) has invalid format.") }
      guard values.updateValue(value, forKey: name)?.hasSameBytes(as: value) ?? true else {
        throw ProxyError("\(name) is there twice, with different values. Send it once.")
      }
    }
  }

  private static func fields(_ body: ByteBuffer, type: String) throws -> [Form.Field] {
    let bytes = body.readableBytesView
    guard type.contains(ascii: "json") || bytes.first == UInt8(ascii: "{") else {
      guard let form = Form.parse(bytes) else { throw ProxyError("There are too many parameters.") }
      return form
    }
    guard !bytes.isEmpty else { return [] }
    guard case .object(let object) = try? JSON.parse(body) else {
      throw ProxyError("The body is no JSON object. Send the parameters as a form.")
    }
    return try object.members.compactMap { member in
      switch member.value {
      case .string(let text): return Form.Field(name: member.name, value: text)
      case .null: return nil
      default:
        guard names.contains(member.name) else { return nil }
        throw ProxyError("\(member.name) must be a string.")
      }
    }
  }

  /// A parameter that must be present and not empty.
  func required(_ name: String) throws(ProxyError) -> String {
    guard let value = values[Name(name)], !value.isEmpty else { throw ProxyError("\(name) is missing.") }
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
  init(_ parameters: DeviceParameters) throws(ProxyError) {
    guard let identifier = Base64.decodeStrictly(try parameters.required("deviceIdentifier")),
      identifier.count == 64
    else {
      throw ProxyError("deviceIdentifier is malformed: it is the base64 of 64 bytes, as the server gave it.")
    }
    let pem = try parameters.required("userPublicKey")
    guard let userKey = try? RSAPublicKey(pem: pem) else {
      throw ProxyError("userPublicKey is malformed: it is the PEM of an RSA key of 2048 to 4096 bits.")
    }
    guard let signature = Base64.decodeStrictly(try parameters.required("deviceIdentifierSignature")),
      signature.count == userKey.ciphertextBytes
    else {
      throw ProxyError(
        "deviceIdentifierSignature is malformed: it is the base64 of \(userKey.ciphertextBytes) bytes.")
    }
    guard userKey.verifies(signature, digest: identifier) else {
      throw ProxyError("deviceIdentifierSignature is not the signature of deviceIdentifier by userPublicKey.")
    }
    self.identifier = identifier
    self.userKey = userKey
  }
}

/// Decides which row a registration takes among those with the same identifier, and which rows are removed.
///
/// Anyone who has seen a device's signed identifier could register it with a key of their own. That makes a
/// separate row and never replaces the device's own. The number of rows per identifier is limited, so that
/// nobody can fill the table, and rows that have never been used are removed first.
struct DevicePlacement: Hashable {
  /// How many rows an identifier may have.
  static let maximumRows = 4

  /// The columns of a row that count for this.
  struct Row: Hashable {
    var id: Int64
    var userKey: [UInt8]
    var tokenHash: [UInt8]
    /// Whether a notification signed with its key has ever arrived.
    var isUsed: Bool
    /// Time of the last registration or signed notification.
    var seenAt: Int64
    var registeredAt: Int64
  }

  /// Id of the row to update; nil for a new row.
  let row: Int64?
  /// Ids of rows to remove.
  let removed: [Int64]

  /// - Parameter rows: all rows with the registration's identifier.
  init(of registration: NextcloudDevice.Registration, among rows: [Row]) {
    let own = rows.first { $0.userKey == registration.userKey }
    // A caller who knows the token has the phone: the user's server has a new key.
    let replaced = rows.filter { $0.id != own?.id && $0.tokenHash == registration.tokenHash }
    if let taken = own ?? replaced.first {
      row = taken.id
      removed = replaced.map(\.id).filter { $0 != taken.id }
    } else {
      row = nil
      removed = rows.sorted(by: Self.givesWay).prefix(max(0, rows.count + 1 - Self.maximumRows)).map(\.id)
    }
  }

  /// Whether the first is removed before the second.
  private static func givesWay(_ first: Row, _ second: Row) -> Bool {
    switch (first.isUsed, second.isUsed) {
    case (false, false): (first.registeredAt, first.id) < (second.registeredAt, second.id)
    case (true, true): (first.seenAt, first.id) < (second.seenAt, second.id)
    case (let isUsed, _): !isUsed
    }
  }
}
