internal import Foundation
internal import HTTP
internal import Providers
package import Registrations
package import SQL
package import Sealing

/// Finds registrations, for an operator who asks why a user gets no notifications. Searches use indexes,
/// except where noted.
package struct DeviceSearch: Sendable {
  package struct Answer: Sendable, Hashable {
    /// The devices, ordered by kind and then by first registration.
    package let devices: [FoundDevice]
    /// Whether more devices match than the limit allows.
    package let isCut: Bool
    /// The chat servers that match the text by name or id, or through one of their realms.
    package let servers: [RemoteServer]
    /// Why there may be no device, and what to check; nil if devices were found.
    package let advice: String?
  }

  private let database: any Database
  private let storageKey: StorageKey

  package init(database: any Database, storageKey: StorageKey) {
    self.database = database
    self.storageKey = storageKey
  }

  /// Finds devices. A search by a token's text reads every device of the Nextcloud proxy. A search by a name
  /// that matches no server and no realm reads all hostnames.
  package func find(_ query: DeviceQuery, limit: Int = 100) async throws -> Answer {
    let found = try await database.read { [storageKey] connection in
      try SnapshotSearch(connection: connection, storageKey: storageKey, limit: Int64(limit) + 1).run(query)
    }
    return Answer(
      devices: Array(found.devices.prefix(limit)), isCut: found.devices.count > limit, servers: found.servers,
      advice: found.devices.isEmpty ? Self.advice(for: query, found.servers, hasPlace: found.hasPlace) : nil)
  }

  private static func advice(for query: DeviceQuery, _ servers: [RemoteServer], hasPlace: Bool) -> String {
    let register = """
      The app registers when it is opened and the user is logged in: open it on the phone while it is online. If \
      nothing comes here then, the chat server cannot reach this service (see its log, and its ZULIP_SERVICES_URL), \
      or the app was built for another bouncer: compare its public key with "push-bouncer keys list".
      """
    switch query {
    case .tokenID, .fingerprint, .token:
      return """
        Nothing is registered for this token. The phone has a newer one by now, a provider has called this one dead, \
        or it was never registered here. \(register)
        """
    case .user(_, let server):
      return """
        No old app of this user is registered\(server.map { " at \($0)" } ?? ""). Apps that encrypt are not \
        registered by user: this service does not know whose they are. Ask for the token's id instead, which the chat \
        server has in its table zerver_device, or list the devices of the realm.
        """
    case .identifier:
      return """
        No device of Nextcloud has this identifier. The app has to be opened and logged in again; see too that its \
        push server is this one, and that the Nextcloud server reaches it ("occ notification:test-push USER").
        """
    case .registration: return "There is no such registration (any more)."
    case .server(_, let realm):
      guard hasPlace else {
        return """
          No chat server\(realm == nil ? "" : " with such a realm") is known here. It registers with "manage.py \
          register_server"; "push-bouncer server list" shows those that have.
          """
      }
      return "No device is registered there. \(register)"
    case .name:
      return servers.isEmpty
        ? "Nothing of that name is known here: no chat server, no realm, no user of an old app."
        : "No device is registered there. \(register)"
    }
  }
}

/// What to search for.
package enum DeviceQuery: Sendable, Hashable {
  /// All devices of a chat server, by its hostname or id; or of one realm, by its host or UUID.
  case server(String, realm: String?)
  /// Encrypted registrations of a token, by the id that chat servers have for it.
  case tokenID(TokenID)
  /// Encrypted registrations of a token, by the first 8 hex digits of the token's SHA-256, as shown in the
  /// log.
  case fingerprint(UInt32)
  /// All registrations of a token.
  case token(String)
  /// Legacy registrations of a user, by number or UUID, at one chat server or at all of them.
  case user(String, server: String?)
  /// Nextcloud devices, by the 64-byte device identifier that Nextcloud servers use.
  case identifier([UInt8])
  /// One registration, by its row id.
  case registration(kind: Int64, id: Int64)
  /// A hostname, or the UUID of a server, a realm or a user.
  case name(String)

  /// Longer texts are not searched for.
  package static let maximumBytes = 300

  /// Why a text cannot be searched for.
  package enum Refusal: Error, Sendable, Hashable, CustomStringConvertible {
    case empty
    /// Not valid as text in a database.
    case notText
    case tooLong
    case looksLikeToken

    package var description: String {
      switch self {
      case .empty: "Nothing to search for."
      case .notText: "Nothing is called that: it holds characters that no name has."
      case .tooLong:
        "This is too long: search for a hostname, a UUID, a user's number, a token's id or a device identifier."
      case .looksLikeToken:
        """
        This looks like a push token or an endpoint of Web Push, which is a secret and belongs neither into an address nor into a command's \
        arguments. Search by the token with "push-bouncer device find --token-file -", which reads it from standard \
        input.
        """
      }
    }
  }

  /// Guesses the kind of query from what a person typed into the search field.
  package init(_ text: String) throws(Refusal) {
    guard text.utf8.count <= 4 * Self.maximumBytes else { throw .tooLong }
    let text = text.trimmingCharacters(in: .whitespacesAndNewlines)
    guard !text.isEmpty else { throw .empty }
    guard text.isStorable else { throw .notText }
    let bytes = Array(text.utf8)
    if let identifier = Self.identifier(text) {
      self = .identifier(identifier)
    } else if let row = Self.row(text) {
      self = row
    } else if let id = TokenID(base64: text) {
      self = .tokenID(id)
    } else if bytes.count == 16, let id = UInt64(text, radix: 16) {
      self = .tokenID(TokenID(storage: Int64(bitPattern: id)))
    } else if bytes.count == 8, bytes.contains(where: { $0 > 0x39 }), let digits = UInt32(text, radix: 16) {
      self = .fingerprint(digits)
    } else if let user = Self.user(text) {
      self = user
    } else if Self.looksLikeToken(bytes) {
      throw .looksLikeToken
    } else if bytes.count > Self.maximumBytes {
      throw .tooLong
    } else {
      self = .name(text)
    }
  }

  /// A device identifier of 64 bytes, from base64 or hexadecimal.
  package static func identifier(_ text: String) -> [UInt8]? {
    if text.utf8.count == 88, let bytes = Base64.decodeStrictly(text), bytes.count == 64 { return bytes }
    let digits = Array(text.utf8)
    guard digits.count == 128 else { return nil }
    let bytes = stride(from: 0, to: 128, by: 2).compactMap {
      UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
    }
    return bytes.count == 64 ? bytes : nil
  }

  /// `e2ee:12`
  package static func row(_ text: String) -> DeviceQuery? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2, let id = Int64(parts[1]),
      let kind = ["e2ee": Int64(1), "legacy": 2, "nextcloud": 3, "nextcloudWebPush": 4][String(parts[0])]
    else { return nil }
    return .registration(kind: kind, id: id)
  }

  /// `7`, or `7 chat.example.org`
  private static func user(_ text: String) -> DeviceQuery? {
    let parts = text.split(whereSeparator: \.isWhitespace).map(String.init)
    guard let first = parts.first, parts.count <= 2, Int64(first) != nil || UUID(uuidString: first) != nil
    else {
      return nil
    }
    // A UUID alone may also be a server's or a realm's.
    if parts.count == 1, Int64(first) == nil { return nil }
    return .user(first, server: parts.count == 2 ? parts[1] : nil)
  }

  private static func looksLikeToken(_ bytes: [UInt8]) -> Bool {
    let text = String(decoding: bytes, as: UTF8.self)
    if WebPushSubscription.isToken(text) || FCMMessage.isInstallationID(text) { return true }
    // A Web Push endpoint identifies a device as a token does.
    let scheme = Array("https://".utf8)
    if bytes.starts(with: scheme), bytes.dropFirst(scheme.count).dropLast().contains(UInt8(ascii: "/")) {
      return true
    }
    let isHexadecimal = bytes.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
    if isHexadecimal { return bytes.count >= 32 }
    // FCM registration tokens are long and contain a colon.
    return bytes.count > 100 && bytes.contains(UInt8(ascii: ":")) && !bytes.contains(UInt8(ascii: "."))
  }
}
