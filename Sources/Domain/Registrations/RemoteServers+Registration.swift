package import Basics
package import Foundation
import HTTPClient
import SQL
import Sealing

extension RemoteServers {
  /// A server's request to register, or to update its registration.
  package struct Application: Sendable {
    package let uuid: UUID
    /// The present key, or that of a new server.
    package let key: String
    package let hostname: Hostname
    package let contactEmail: String
    /// The key to replace `key` from now on.
    package let newKey: String?

    package init(uuid: UUID, key: String, hostname: Hostname, contactEmail: String, newKey: String? = nil) {
      self.uuid = uuid
      self.key = key
      self.hostname = hostname
      self.contactEmail = contactEmail
      self.newKey = newKey
    }
  }

  /// The reason why an application was refused. Nothing has changed then.
  package enum RegistrationError: Error, Hashable {
    /// The server exists and has another key.
    case wrongKey
    /// The server exists and is deactivated.
    case deactivated
    /// The key was replaced minutes ago, and something would change.
    case replacedKey
    /// Another server has the hostname and has not deactivated itself.
    case hostnameTaken
    /// The server is new, or would have to prove a hostname, and new ones are not admitted.
    case closed
    /// The server is new, or changes to this hostname, and must prove that the hostname is its own.
    case unprovenHostname
    /// A server with this id exists already (``RemoteServers/add(hostname:uuid:key:contactEmail:)``).
    case alreadyThere
  }

  /// Adds a new server, or updates one that knows its key. It takes the hostname of a server that has deactivated
  /// itself.
  ///
  /// - Parameters:
  ///   - mayCreate: whether a new server is admitted.
  ///   - mustProve: whether a hostname must have been proven, which an application alone does not do.
  /// - Returns: whether the server is new.
  /// - Throws: ``RegistrationError``, or the database's own error.
  package func register(_ application: Application, mayCreate: Bool, mustProve: Bool = false) async throws
    -> Bool
  {
    try await write { connection in
      let row = try check(application, mayCreate: mayCreate, mustProve: mustProve, on: connection)
      try connection.free(application.hostname, for: try row?.int64("id"), at: now())
      if let row {
        try update(application, row, on: connection)
      } else {
        try insert(application, lastRequestAt: now(), on: connection)
      }
      return row == nil
    }
  }

  /// Whether ``register(_:mayCreate:mustProve:)`` would take an application; nothing changes.
  ///
  /// - Returns: the server that would get a new key; nil if none would.
  /// - Throws: ``RegistrationError``, or the database's own error.
  package func check(_ application: Application, mayCreate: Bool, mustProve: Bool) async throws
    -> RemoteServer?
  {
    try await database.read { connection in
      let row = try check(application, mayCreate: mayCreate, mustProve: mustProve, on: connection)
      guard let row, try newKey(of: application, row) != nil else { return nil }
      return try RemoteServer(row: row)
    }
  }

  /// - Returns: the row of ``selectWithKeys(_:)`` of the server that an application is of; nil for a new one.
  private func check(
    _ application: Application, mayCreate: Bool, mustProve: Bool, on connection: any Connection
  ) throws -> Row? {
    let row = try connection.query(Self.selectWithKeys(application.uuid)).first
    let standing = try row.flatMap { try self.standing(of: application.key, in: $0) }
    if row != nil, standing == nil { throw RegistrationError.wrongKey }
    let server = try row.map(RemoteServer.init)
    guard server?.isDeactivated != true else { throw RegistrationError.deactivated }
    if let row, standing == .previous, try changes(application, row) { throw RegistrationError.replacedKey }
    guard try !connection.isTaken(application.hostname, byOtherThan: server?.id) else {
      throw RegistrationError.hostnameTaken
    }
    let isProven = !mustProve || server?.hostname == application.hostname.text
    guard mayCreate || (server != nil && isProven) else { throw RegistrationError.closed }
    guard isProven else { throw RegistrationError.unprovenHostname }
    return row
  }

  /// Adds a server for the operator; a key is generated unless one is given. It takes the hostname of a
  /// deactivated server.
  ///
  /// - Throws: ``RegistrationError/hostnameTaken``, ``RegistrationError/alreadyThere``, or the database's own error.
  package func add(
    hostname: Hostname, uuid: UUID = UUID(), key: String? = nil, contactEmail: String
  ) async throws -> (server: RemoteServer, key: String) {
    let key = key ?? RandomText.alphanumeric(Self.keyLength)
    let application = Application(uuid: uuid, key: key, hostname: hostname, contactEmail: contactEmail)
    let server = try await write { connection in
      guard try connection.query(Self.selectWithKeys(uuid)).isEmpty else {
        throw RegistrationError.alreadyThere
      }
      guard try !connection.isTaken(hostname, byOtherThan: nil, isOperator: true) else {
        throw RegistrationError.hostnameTaken
      }
      try connection.free(hostname, for: nil, at: now())
      return try insert(application, lastRequestAt: nil, on: connection)
    }
    return (server, key)
  }

  /// Runs `body` again if another process has added a server with the same id or hostname meanwhile, which the database's
  /// constraint detects: `body` then finds that one.
  private func write<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    defer { cache.clear() }
    do {
      return try await database.write(body)
    } catch let error as DatabaseError where error.code == .uniqueViolation {
      guard let constraint = error.constraint, constraint.contains("uuid") || constraint.contains("hostname")
      else { throw error }
      return try await database.write(body)
    }
  }

  @discardableResult
  private func insert(
    _ application: Application, lastRequestAt: Date?, on connection: any Connection
  ) throws -> RemoteServer {
    let now = Value.integer(now().milliseconds)
    let row = try connection.query(
      """
      INSERT INTO remote_servers
        (uuid, hostname, hostname_key, contact_email, key_hash, last_request_at, created_at, updated_at)
      VALUES ($1, $2, $2, $3, $4, $5, $6, $6) RETURNING \(RemoteServer.columns)
      """,
      .text(application.uuid.canonical), .text(application.hostname.text),
      .text(application.contactEmail), .bytes(storageKey.hash(application.key, for: Self.keyPurpose)),
      .integer(lastRequestAt?.milliseconds), now
    ).returned
    let server = try RemoteServer(row: row)
    try connection.audit(.created, server: server.id, at: now)
    return server
  }

  /// The key that replaces the one in a row of ``selectWithKeys(_:)``. A new key equal to the present one is no rotation,
  /// which would replace the previous key.
  private func newKey(of application: Application, _ row: Row) throws -> String? {
    guard let key = application.newKey else { return nil }
    return storageKey.matches(key, hash: try row.bytes("key_hash"), for: Self.keyPurpose) ? nil : key
  }

  /// Whether an application would change its server's registration. One that comes again, because its answer was lost,
  /// does not.
  private func changes(_ application: Application, _ row: Row) throws -> Bool {
    try row.text("hostname") != application.hostname.text
      || row.text("contact_email") != application.contactEmail || newKey(of: application, row) != nil
  }

  private func update(_ application: Application, _ row: Row, on connection: any Connection) throws {
    let id = try row.int64("id")
    let now = now()
    try connection.run(
      """
      UPDATE remote_servers SET hostname = $2, hostname_key = $2, contact_email = $3, last_request_at = $4,
        updated_at = $4
      WHERE id = $1
      """,
      .integer(id), .text(application.hostname.text), .text(application.contactEmail),
      .integer(now.milliseconds))
    if let key = try newKey(of: application, row) { try connection.run(replacement(of: id, by: key)) }
  }
}

extension Connection {
  /// Whether another server has the hostname. One that has deactivated itself does not count.
  ///
  /// - Parameter isOperator: whether the operator asks; then no deactivated server counts.
  fileprivate func isTaken(_ hostname: Hostname, byOtherThan id: Int64?, isOperator: Bool = false) throws
    -> Bool
  {
    let rows = try query(
      """
      SELECT id FROM remote_servers
      WHERE hostname_key = $1 AND deactivated_by_itself = 0 AND (deactivated_at IS NULL OR $2 = 0)
      """, .text(hostname.text), .flag(isOperator))
    return try rows.contains { try $0.int64("id") != id }
  }

  /// Takes the hostname from a deactivated server, which gets a name that nobody can have.
  ///
  /// - Parameter id: the server that keeps or gets the hostname; nil for a new one.
  fileprivate func free(_ hostname: Hostname, for id: Int64?, at time: Date) throws {
    let rows = try query(
      """
      SELECT id, uuid FROM remote_servers WHERE hostname_key = $1 AND deactivated_at IS NOT NULL
      """, .text(hostname.text))
    for row in rows where try row.int64("id") != id {
      try run(
        "UPDATE remote_servers SET hostname = $2, hostname_key = $2, updated_at = $3 WHERE id = $1",
        .integer(try row.int64("id")),
        .text(Hostname.substitute(for: hostname.text, server: try row.uuid("uuid"))),
        .integer(time.milliseconds))
    }
  }
}
