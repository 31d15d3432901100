internal import Foundation
internal import SQL

extension RemoteServers {
  /// Brings the hostnames that were kept as they were spelled into the one form that they are looked up under.
  ///
  /// Where that makes two servers' names one, an active server keeps it before one that is switched off, then one
  /// that had it so before one that spelled it otherwise, then the older; the others are as servers that came in
  /// with a name of another's: they keep id and key, and get a name by registering with a free one.
  package func canonicalizeHostnames() async throws {
    guard try await !database.read({ try $0.storedHostnames() }).allSatisfy(\.isCanonical) else { return }
    defer { cache.clear() }
    try await database.write { connection in
      let owners = Dictionary(grouping: try connection.storedHostnames(), by: \.key)
        .mapValues { $0.sorted { $0.isBefore($1) } }
      // Names are given up before they are given.
      for server in owners.values.flatMap({ $0.dropFirst() }) {
        try connection.rename(server.id, Hostname.substitute(for: server.hostname, server: server.uuid))
      }
      for server in owners.values.compactMap(\.first) where !server.isCanonical {
        try connection.rename(server.id, server.key)
      }
    }
  }
}

/// What is kept of a server's name.
private struct StoredHostname {
  let id: Int64
  let uuid: UUID
  let hostname: String
  let key: String
  let isCanonical: Bool
  let isActive: Bool
  let createdAt: Date

  init(row: Row) throws {
    id = try row.int64(0)
    uuid = try row.uuid(1)
    hostname = try row.text(2)
    key = Hostname.key(of: hostname)
    isCanonical = try hostname.utf8.elementsEqual(key.utf8) && row.text(3).utf8.elementsEqual(key.utf8)
    isActive = try row.optionalInt64(4) == nil
    createdAt = try row.date(5)
  }

  func isBefore(_ other: Self) -> Bool {
    if isActive != other.isActive { return isActive }
    if isCanonical != other.isCanonical { return isCanonical }
    return createdAt == other.createdAt ? id < other.id : createdAt < other.createdAt
  }
}

extension Connection {
  fileprivate func storedHostnames() throws -> [StoredHostname] {
    try query(
      Statement("SELECT id, uuid, hostname, hostname_key, deactivated_at, created_at FROM remote_servers")
    ).map(StoredHostname.init)
  }

  fileprivate func rename(_ server: Int64, _ hostname: String) throws {
    try run(
      Statement(
        "UPDATE remote_servers SET hostname = $2, hostname_key = $2 WHERE id = $1", .integer(server),
        .text(hostname)))
  }
}
