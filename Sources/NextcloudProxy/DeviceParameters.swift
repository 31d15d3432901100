internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Sealing

/// The parameters of `/devices`, wherever a client puts them: a form, a JSON object or the query string, on
/// `DELETE` as well as on `POST`. Others are not looked at. Names and values are compared by their bytes:
/// characters would cost whoever sends thousands of combining marks nothing, and this program much.
struct DeviceParameters {
  private var values: [Name: String] = [:]
  /// What the caller calls itself, the more telling first: Files on Android says it in a field.
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

  /// A parameter that must be there and not be empty.
  func required(_ name: String) throws(ProxyError) -> String {
    guard let value = values[Name(name)], !value.isEmpty else { throw ProxyError("\(name) is missing.") }
    return value
  }
}

/// A device's identifier and who it belongs to, proven: what the parameters of both calls of `/devices` say.
struct SignedIdentifier {
  /// The raw 64 bytes: the SHA-512 of what only the server knows.
  let identifier: [UInt8]
  /// The key of the user whose server has signed it.
  let userKey: RSAPublicKey

  /// Reads and verifies. The signature is one of the text that the identifier is the hash of, so that the
  /// identifier is its digest and is not hashed again.
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

/// Which row a registration takes among those with the same identifier, and which have to go for it.
///
/// Whoever has seen a device's identifier signed could register it with a key of his own: that makes a row
/// beside the device's own and never takes it. They are few, so that nobody fills the table with them, and
/// those that have proven nothing give way first.
struct DevicePlacement: Hashable {
  /// How many rows an identifier may have.
  static let maximumRows = 4

  /// What counts of a row.
  struct Row: Hashable {
    var id: Int64
    var userKey: [UInt8]
    var tokenHash: [UInt8]
    /// Whether a notification signed by its key has ever come.
    var isUsed: Bool
    /// The last registration or such notification.
    var seenAt: Int64
    var registeredAt: Int64
  }

  /// The row that is to hold the registration; nil is a new one.
  let row: Int64?
  /// Rows that go.
  let removed: [Int64]

  /// - Parameter rows: all with the registration's identifier.
  init(of registration: NextcloudDevice.Registration, among rows: [Row]) {
    let own = rows.first { $0.userKey == registration.userKey }
    // A caller who knows the token has the phone, whose server has a new key.
    let replaced = rows.filter { $0.id != own?.id && $0.tokenHash == registration.tokenHash }
    if let taken = own ?? replaced.first {
      row = taken.id
      removed = replaced.map(\.id).filter { $0 != taken.id }
    } else {
      row = nil
      removed = rows.sorted(by: Self.givesWay).prefix(max(0, rows.count + 1 - Self.maximumRows)).map(\.id)
    }
  }

  /// Whether the first gives way before the second.
  private static func givesWay(_ first: Row, _ second: Row) -> Bool {
    switch (first.isUsed, second.isUsed) {
    case (false, false): (first.registeredAt, first.id) < (second.registeredAt, second.id)
    case (true, true): (first.seenAt, first.id) < (second.seenAt, second.id)
    case (let isUsed, _): !isUsed
    }
  }
}
