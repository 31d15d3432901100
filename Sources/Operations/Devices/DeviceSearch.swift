package import SQL
package import Sealing

/// Finds registrations, for whoever asks why a user gets nothing. It reads by indexes, but where it says so.
package struct DeviceSearch: Sendable {
  /// What was found.
  package struct Answer: Sendable, Hashable {
    /// The devices: of each kind in the order in which they first came.
    package let devices: [FoundDevice]
    /// There are more than were asked for.
    package let isCut: Bool
    /// The chat servers whose name or id it is, or to which a realm of that name belongs.
    package let servers: [Server]
    /// What it means that there is no device, and what to look at; nil if there is one.
    package let advice: String?
  }

  /// A chat server that a search leads to.
  package struct Server: Sendable, Hashable {
    /// Its row.
    package let id: Int64
    /// Its `zulip_org_id`.
    package let uuid: String
    /// Its hostname.
    package let hostname: String
  }

  private let database: any Database
  private let storageKey: StorageKey

  /// A search in `database`.
  package init(database: any Database, storageKey: StorageKey) {
    self.database = database
    self.storageKey = storageKey
  }

  /// Looks for devices. By the text of a token it reads every device of Nextcloud's proxy; by a name that is no
  /// server's and no realm's every name of a server.
  package func find(_ query: DeviceQuery, limit: Int = 100) async throws -> Answer {
    let storageKey = storageKey
    let (devices, servers, hasServer) = try await database.read { connection in
      let search = SnapshotSearch(connection: connection, storageKey: storageKey, limit: Int64(limit) + 1)
      return try search.run(query)
    }
    return Answer(
      devices: Array(devices.prefix(limit)), isCut: devices.count > limit, servers: servers,
      advice: devices.isEmpty ? Self.advice(for: query, servers, hasServer: hasServer) : nil)
  }

  private static func advice(for query: DeviceQuery, _ servers: [Server], hasServer: Bool) -> String {
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
      guard hasServer else {
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
