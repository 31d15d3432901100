package import Foundation
import SQL
import Sealing

/// The apps that wait for their user to grant them access (version 2 of Nextcloud's login flow).
///
/// A flow has two secrets, stored as hashes: the app polls with one; with the other the user, or the host
/// application on the user's behalf, grants access. The app password is created only when the app polls after
/// that, so it is never stored.
package struct NextcloudLoginFlows: Sendable {
  /// Seconds for which a flow is open, the same as in Nextcloud.
  package static let lifetime: TimeInterval = 20 * 60
  /// Seconds between sign-in and consent at most.
  static let proofLifetime: TimeInterval = 10 * 60
  /// Maximum number of open flows of all apps. For one more, the oldest flow that is not granted is removed,
  /// from the address with the most flows.
  package static let maximumOpen = 10_000
  /// Maximum number of open flows of one address.
  package static let maximumOpenPerAddress = 200
  /// Letters and digits in each secret.
  static let secretLength = 128

  private static let pollPurpose = StorageKey.Purpose("nextcloud_login_flows.poll_token")
  private static let loginPurpose = StorageKey.Purpose("nextcloud_login_flows.login_token")
  private static let proofPurpose = StorageKey.Purpose("nextcloud_login_flows.proof")
  private static let addressPurpose = StorageKey.Purpose("nextcloud_login_flows.address")

  /// The secrets of a flow, which cannot be shown again.
  package struct Secrets: Sendable {
    /// The secret with which the app polls.
    package let poll: String
    /// The secret with which access is granted.
    package let login: String
  }

  /// The reason why no flow can be opened.
  package enum OpenError: Error, Hashable {
    /// The address has ``maximumOpenPerAddress`` open flows.
    case tooManyOfAddress
    /// There are ``maximumOpen`` open flows, all of them granted.
    case tooMany
  }

  /// An open flow that is not granted yet.
  package struct Flow: Sendable, Hashable {
    package let id: Int64
    /// Name of the app.
    package let client: String
  }

  private let accounts: AccountStore
  private var database: any Database { accounts.database }
  private var storageKey: StorageKey { accounts.storageKey }

  package init(accounts: AccountStore) {
    self.accounts = accounts
  }

  /// Opens a flow.
  ///
  /// - Parameters:
  ///   - client: name of the app, as made by ``clientName(_:)``.
  ///   - address: the caller's address.
  /// - Throws: ``OpenError``, or the database's own error.
  package func open(client: String, address: String) async throws -> Secrets {
    let secrets = Secrets(
      poll: RandomText.alphanumeric(Self.secretLength), login: RandomText.alphanumeric(Self.secretLength))
    let address = storageKey.hash(address, for: Self.addressPurpose)
    let now = accounts.now()
    let earliest = earliest
    let poll = hash(poll: secrets.poll)
    let login = hash(login: secrets.login)
    try await database.write { connection in
      let own = try connection.query(
        "SELECT COUNT(*) AS count FROM nextcloud_login_flows WHERE address_hash = $1 AND created_at > $2",
        .bytes(address), earliest)
      guard try own.returned.int64("count") < Self.maximumOpenPerAddress else {
        throw OpenError.tooManyOfAddress
      }
      let all = try connection.query(
        "SELECT COUNT(*) AS count FROM nextcloud_login_flows WHERE created_at > $1", earliest)
      if try all.returned.int64("count") >= Self.maximumOpen, try connection.run(displace, earliest) == 0 {
        throw OpenError.tooMany
      }
      try connection.run(
        """
        INSERT INTO nextcloud_login_flows (poll_hash, login_hash, client, address_hash, created_at)
        VALUES ($1, $2, $3, $4, $5)
        """, .bytes(poll), .bytes(login), .text(client), .bytes(address), .integer(now.milliseconds))
    }
    return secrets
  }

  /// A flow is open if it was opened after this time.
  private var earliest: Value { .integer((accounts.now() - Self.lifetime).milliseconds) }

  /// The open flow, not granted yet, with this secret.
  package func find(login: String) async throws -> Flow? {
    try await database.query(
      """
      SELECT id, client FROM nextcloud_login_flows
      WHERE login_hash = $1 AND created_at > $2 AND user_id IS NULL
      """, .bytes(hash(login: login)), earliest
    ).first.map { Flow(id: try $0.int64("id"), client: try $0.text("client")) }
  }

  /// A token that proves for some minutes that a user has signed in to grant this flow and no other. It
  /// protects against CSRF: another site can make a browser send a form, but has no such token.
  package func proof(of user: Int64, for flow: Flow) -> String {
    let time = (accounts.now() + Self.proofLifetime).milliseconds
    let hash = storageKey.hash(Self.claim(user, flow, time), for: Self.proofPurpose)
    return "\(user).\(time).\(Base64.encode(hash))"
  }

  /// The user named by such a token; nil if it is invalid, too old, or for another flow.
  package func user(provenBy proof: String, for flow: Flow) -> Int64? {
    let parts = proof.utf8.split(separator: UInt8(ascii: "."), maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, let user = Int64(Substring(parts[0])), let time = Int64(Substring(parts[1])),
      time > accounts.now().milliseconds, let hash = Base64.decodeStrictly(String(Substring(parts[2]))),
      storageKey.matches(Self.claim(user, flow, time), hash: hash, for: Self.proofPurpose)
    else { return nil }
    return user
  }

  private static func claim(_ user: Int64, _ flow: Flow, _ time: Int64) -> String {
    "\(flow.id).\(user).\(time)"
  }

  /// Grants the app access as a user. Returns false if the secret is unknown, too old, or already used.
  ///
  /// - Throws: ``AccountStore/AppPasswordError``, or the database's own error.
  package func grant(login: String, user: Int64) async throws -> Bool {
    let statement = Statement(
      """
      UPDATE nextcloud_login_flows SET user_id = $1
      WHERE login_hash = $2 AND created_at > $3 AND user_id IS NULL
      """, .integer(user), .bytes(hash(login: login)), earliest)
    return try await database.write { connection in
      // Checked now, while the user can be told, and not only when the app polls.
      try connection.checkRoomForAppPassword(of: user)
      return try connection.run(statement) > 0
    }
  }

  /// Ends a granted flow and creates the app password, which is shown once.
  ///
  /// - Returns: nil if the flow is not granted, or there is none.
  package func finish(poll: String) async throws -> (user: User, password: String)? {
    let removal = Statement(
      """
      DELETE FROM nextcloud_login_flows WHERE poll_hash = $1 AND created_at > $2 AND user_id IS NOT NULL
      RETURNING user_id, client
      """, .bytes(hash(poll: poll)), earliest)
    let new = accounts.newAppPassword()
    let user = try await database.write { connection -> Int64? in
      guard let row = try connection.query(removal).first else { return nil }
      let user = try row.int64("user_id")
      _ = try connection.insert(new, name: try row.text("client"), user: user)
      return user
    }
    guard let user, let found = try await accounts.find(user) else { return nil }
    return (found, new.password)
  }

  /// Removes at most `limit` flows that have expired; returns how many.
  package func removeOld(limit: Int) async throws -> Int {
    try await database.run(
      """
      DELETE FROM nextcloud_login_flows WHERE id IN (
        SELECT id FROM nextcloud_login_flows WHERE created_at <= $1 LIMIT $2)
      """, earliest, .integer(Int64(limit)))
  }

  private func hash(poll: String) -> [UInt8] { storageKey.hash(poll, for: Self.pollPurpose) }

  private func hash(login: String) -> [UInt8] { storageKey.hash(login, for: Self.loginPurpose) }

  /// Makes a name of an app that can be shown to people and name its password: at most 100 characters,
  /// without invisible ones and without any that reverse the text's direction.
  package static func clientName(_ userAgent: String) -> String {
    let shown = userAgent.unicodeScalars.prefix(1000).filter { scalar in
      switch scalar.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned,
        .nonspacingMark, .enclosingMark, .spacingMark:
        false
      default: true
      }
    }
    let name = String(String.UnicodeScalarView(shown.prefix(100))).trimmingCharacters(in: .whitespaces)
    return name.isEmpty ? "An app without a name" : name
  }
}

/// Chooses the address with the most flows; among equals, the one with the older flow.
private let displace = """
  DELETE FROM nextcloud_login_flows WHERE id = (
    SELECT id FROM nextcloud_login_flows
    WHERE user_id IS NULL AND created_at > $1 AND address_hash = (
      SELECT address_hash FROM nextcloud_login_flows WHERE user_id IS NULL AND created_at > $1
      GROUP BY address_hash ORDER BY COUNT(*) DESC, MIN(created_at) LIMIT 1)
    ORDER BY created_at, id LIMIT 1)
  """
