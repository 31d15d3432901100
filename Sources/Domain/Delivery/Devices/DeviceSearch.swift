package import Foundation
package import Registrations
package import SQL
package import Sealing

/// Finds registrations, for an operator who wants to know why a user gets no notifications. Searches use indexes,
/// except where noted.
package struct DeviceSearch: Sendable {
  /// The result of a search.
  package struct SearchResult: Sendable, Hashable {
    /// The devices. Those of each server, realm, user or token that matches stand together.
    package let devices: [FoundDevice]
    /// Whether more devices match than the limit allows.
    package let isCut: Bool
    /// The chat servers that match the text by name or id, or through one of their realms.
    package let servers: [RemoteServer]
    /// Possible reasons why there is no device, and what to check; nil if devices were found.
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
  package func find(_ query: DeviceQuery, limit: Int = 100) async throws -> SearchResult {
    let found = try await database.read { [storageKey] connection in
      try SnapshotSearch(connection: connection, storageKey: storageKey, limit: Int64(limit) + 1).run(query)
    }
    return SearchResult(
      devices: Array(found.devices.prefix(limit)), isCut: found.devices.count > limit, servers: found.servers,
      advice: found.devices.isEmpty
        ? Self.advice(for: query, found.servers, isScopeKnown: found.isScopeKnown) : nil)
  }

  /// Registrations of one chat server, by the row ids of the server and the realm.
  package enum Selection: Sendable {
    case server(Int64)
    case realm(Int64, server: Int64)
    /// The encrypted registrations of a token in the server's realms.
    case token(TokenID, server: Int64)
    /// The legacy registrations of a user.
    case user(LegacyUser, server: Int64)
  }

  /// The end of a page: the last registration's kind and realm, and its token id or, of a legacy one, its row id.
  package struct Mark: Sendable, Hashable {
    let wire, realm, last: Int64

    /// The mark as callers send it back.
    package var text: String { "\(wire).\(realm).\(last)" }

    init(wire: Int64, realm: Int64, last: Int64) {
      self.wire = wire
      self.realm = realm
      self.last = last
    }

    /// Reads what ``text`` has written; nil if it is malformed.
    package init?(_ text: String) {
      let numbers = text.split(separator: ".", omittingEmptySubsequences: false).map { Int64($0) }
      guard numbers.count == 3, let wire = numbers[0], let realm = numbers[1], let last = numbers[2] else {
        return nil
      }
      self.init(wire: wire, realm: realm, last: last)
    }
  }

  /// A page of a chat server's registrations: the encrypted ones, then the legacy ones.
  ///
  /// - Parameter last: the end of the page before.
  /// - Returns: the end of this page, if more follow.
  package func page(
    _ selection: Selection, after last: Mark?, size: Int
  ) async throws -> (devices: [FoundDevice], end: Mark?) {
    try await database.read { [storageKey] connection in
      try SnapshotSearch(connection: connection, storageKey: storageKey, limit: 0)
        .page(selection, after: last, size: size)
    }
  }

  /// A chat server's registrations with a notification that was refused since a time, the latest refusal first.
  package func failures(ofServer server: Int64, since time: Date, limit: Int) async throws -> [FoundDevice] {
    try await database.read { [storageKey] connection in
      try SnapshotSearch(connection: connection, storageKey: storageKey, limit: Int64(limit))
        .failures(ofServer: server, since: time)
    }
  }

  private static func advice(for query: DeviceQuery, _ servers: [RemoteServer], isScopeKnown: Bool) -> String
  {
    let register = """
      The app registers when it is opened and the user is logged in: open it on the phone while it is online. If \
      nothing comes here then, the chat server cannot reach this service (see its log, and its ZULIP_SERVICES_URL), \
      or the app was built for another bouncer: compare its public key with "push-bouncer keys list".
      """
    switch query {
    case .tokenID, .fingerprint, .token:
      return """
        Nothing is registered for this token. The phone has a newer one by now, a provider has reported this one as dead, \
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
      guard isScopeKnown else {
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

/// A search for devices.
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
  case registration(wire: Int64, id: Int64)
  /// A hostname, or the UUID of a server, a realm or a user.
  case name(String)
}
