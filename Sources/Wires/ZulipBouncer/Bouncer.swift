package import Basics
package import Delivery
package import Foundation
package import HTTP
import HTTPClient
import HTTPTypes
import Logging
package import Registrations
import SQL
package import Sealing

/// The push notification service for Zulip's servers, independent of how it is called. ``ZulipBouncerRoutes``
/// provides its HTTP endpoints. Refusals are thrown as `APIError`.
package struct Bouncer: Sendable {
  /// The time for which a call that must not be lost waits for the database. Stock servers wait 15 s for an answer.
  static let databaseWait = Duration.seconds(12)

  let settings: BouncerSettings
  let http: HTTPSettings
  let delivery: DeliverySettings
  /// The operator's email address, for chat servers' administrators; nil if none is set.
  let operatorEmail: String?
  /// Limit of device registrations per server, which `bouncer.rate_limit.per_server` does not count. It is high
  /// because a refused registration waits for the phone's next attempt. There is none without that other limit.
  package var rateLimitOfRegistrations: RateLimit?
  /// This service's URL without a final slash; evaluated at each call, because the port may be known only when
  /// the service listens.
  let publicURL: @Sendable () -> String
  let servers: RemoteServers
  let realms: RemoteRealms
  let registrations: RegistrationStore
  let room: RegistrationRoom
  /// The bouncer keys of this and of other nodes.
  package let bouncerKeys: BouncerKeys
  let requestTimes: RequestTimes
  let deliverer: Deliverer
  /// The key pairs that open registrations; evaluated at each call.
  let keyring: @Sendable () -> BouncerKeyring
  let hosts: HostVerifier
  let challenges: ChallengeTurns
  /// Limits new servers where everybody may register, by network.
  let newServers: Rate<ClientAddress>
  private(set) var pace: NotificationPace
  /// The limits of servers' reports.
  package var reports: ReportIntake
  /// The upstream bouncer; nil if there is none.
  package let upstream: UpstreamBouncer?
  let lossDetector: StoreLossDetector?

  package init(
    _ settings: BouncerSettings, http: HTTPSettings, delivery: DeliverySettings, operatorEmail: String?,
    publicURL: @escaping @Sendable () -> String,
    registrations: RegistrationStore, room: RegistrationRoom, requestTimes: RequestTimes,
    deliverer: Deliverer, keyring: @escaping @Sendable () -> BouncerKeyring, upstream: UpstreamBouncer?,
    lossDetector: StoreLossDetector? = nil
  ) {
    let database = registrations.database
    let now = registrations.now
    rateLimitOfRegistrations = settings.rateLimitPerServer.map { _ in RateLimit(calls: 60_000, seconds: 60) }
    self.settings = settings
    self.http = http
    self.delivery = delivery
    self.operatorEmail = operatorEmail
    self.publicURL = publicURL
    self.registrations = registrations
    self.room = room
    self.requestTimes = requestTimes
    self.deliverer = deliverer
    self.keyring = keyring
    servers = RemoteServers(database: database, storageKey: registrations.storageKey, now: now)
    realms = RemoteRealms(database: database)
    bouncerKeys = BouncerKeys(database: database, now: now)
    hosts = HostVerifier(
      caFile: settings.verifyCAFile, allowPrivateAddresses: settings.verifyAllowPrivateAddresses)
    challenges = ChallengeTurns(now: now)
    newServers = Rate(RateLimit(calls: 100, seconds: 3600), now: now)
    pace = NotificationPace(settings.notificationsPerServer, now: now)
    self.upstream = upstream
    self.lossDetector = lossDetector
    reports =
      settings.rateLimitPerServer == nil
      ? ReportIntake(nil, now: registrations.now) : ReportIntake(now: registrations.now)
    ItemFaults.prepare()
  }

  var database: any Database { registrations.database }
  var storageKey: StorageKey { registrations.storageKey }
  var now: @Sendable () -> Date { registrations.now }
  /// Whether anything may be treated as expired; false while the clock is in doubt.
  var isClockTrusted: @Sendable () -> Bool { registrations.isClockTrusted }

  /// Whether a server may be told to forget devices that are unknown here. For an hour it may not if they may be known
  /// elsewhere: to the database before it was lost (`Documentation/Decisions` 0014), or to the upstream bouncer (0028).
  func mayForgetUnknown(of server: RemoteServer) async -> Bool {
    do {
      if try await lossDetector?.isDoubtful() == true { return false }
      return try await upstream?.mayKnowDevices(of: server, isClockTrusted: isClockTrusted()) != true
    } catch {
      // If the database does not answer, they may be known.
      return false
    }
  }

  /// This bouncer without a pace, for the chat server in this process, whose users have limits of their own.
  package var unpaced: Bouncer {
    var bouncer = self
    bouncer.pace = NotificationPace(nil, now: now)
    return bouncer
  }

  /// Runs a call by a chat server in this process: it needs no key, and waits for the database.
  package func call<Result>(
    as server: UUID, _ body: (RemoteServer) async throws -> Result
  ) async throws -> Result {
    try await DatabaseWait.wait(upTo: Self.databaseWait) {
      guard let server = try await servers.find(uuid: server) else {
        throw APIError.unknownServer(server.canonical)
      }
      guard !server.isDeactivated else { throw APIError.deactivated }
      requestTimes.record(server: server.id)
      return try await body(server)
    }
  }

  /// The realm that a server calls for. Also records the time of the call.
  func caller(_ uuid: UUID?, of server: RemoteServer) async throws -> RemoteRealm {
    let realm = try await realm(uuid, of: server)
    requestTimes.record(realm: realm.id)
    return realm
  }

  /// The realm of a server; nil stands for an invalid UUID and is refused.
  func realm(_ uuid: UUID?, of server: RemoteServer) async throws -> RemoteRealm {
    guard let uuid else { throw APIError.missingRealm }
    switch try await realms.find(uuid: uuid, server: server.id) {
    case .owned(let realm): return realm
    case .unknown: throw APIError.missingRealm
    case .anothersRealm: throw APIError.anothersRealm(uuid)
    }
  }
}

/// Registration of chat servers, and recovery of lost keys.
extension Bouncer {
  /// Registers a server or updates its registration (`Documentation/Protocols/Zulip.md` 3.2).
  ///
  /// - Parameters:
  ///   - spelled: the hostname in the server's spelling.
  ///   - more: parameters that are not known here.
  /// - Returns: whether the server is new.
  func register(
    _ application: RemoteServers.Application, spelled: String, with more: [Form.Field] = []
  ) async throws -> Bool {
    let mayCreate = mayCreate(application.hostname)
    let mustProve = settings.verifyHostnames
    do {
      // The upstream bouncer gets the new key first, so what would be refused here is refused before that.
      if let newKey = application.newKey, let upstream,
        let server = try await servers.check(application, mayCreate: mayCreate, mustProve: mustProve)
      {
        try await upstream.rotate(
          server, from: application.key, to: newKey, hostname: application.hostname.text,
          contactEmail: application.contactEmail, with: more)
      }
      return try await servers.register(application, mayCreate: mayCreate, mustProve: mustProve)
    } catch let refusal as RemoteServers.RegistrationError {
      throw APIError(refusal, role: application.uuid.canonical, hostname: spelled)
    }
  }

  /// Counts a server that would be new, where everybody may register.
  ///
  /// - Throws: 429 if too many came from its network, 503 if there are too many in all.
  func countNew(_ server: UUID, from address: ClientAddress) async throws {
    guard settings.isOpen, try await servers.find(uuid: server) == nil else { return }
    try newServers.check(address.network)
    try await checkRoom()
  }

  /// Maximum number of servers, deactivated ones among them, where everybody may register.
  private static let mostServers = 100_000

  private func checkRoom() async throws {
    guard settings.isOpen, try await servers.count() >= Self.mostServers else { return }
    throw APIError.unavailable("There is no room for another server here", retryAfter: 3600)
  }

  private func mayCreate(_ hostname: Hostname) -> Bool {
    settings.isOpen || settings.allowedHostnames.contains { $0.matches(hostname) }
  }

  /// Whether a new server with this hostname is admitted when it proves the hostname.
  private func mayProve(_ hostname: Hostname) -> Bool {
    settings.verifyHostnames && mayCreate(hostname)
  }

  /// Creates a secret to be shown at a hostname: for a server that has lost its key or, with
  /// `bouncer.verify_hostnames`, for a new one that may be admitted.
  func challenge(_ hostname: Hostname, spelled: String) async throws -> String {
    let known = try await known(hostname)
    guard known != nil || mayProve(hostname) else { throw APIError("\(spelled) not yet registered") }
    return VerificationSecret.make(for: hostname, storageKey, now: now())
  }

  /// The server with this hostname, which may prove it.
  ///
  /// - Throws: if the operator has deactivated it.
  private func known(_ hostname: Hostname) async throws -> RemoteServer? {
    let server = try await servers.find(hostname: hostname)
    guard server?.isDeactivatedByOperator != true else { throw APIError.registrationDeactivated }
    return server
  }

  /// Gives a new key to the server that shows the secret at its hostname; the old key becomes invalid, and a
  /// server that has deactivated itself is active again. With `bouncer.verify_hostnames` new servers are admitted
  /// this way: they get id and key here, which stock servers save before they register with them. A server that was
  /// registered under another hostname cannot be told from a new one yet: its realms follow with its next upload
  /// (`Documentation/Decisions` 0026).
  ///
  /// - Parameter caller: who asks for it.
  func verify(
    _ hostname: Hostname, accessToken: AccessToken, for caller: ClientAddress
  ) async throws -> (server: RemoteServer, key: String, isNew: Bool) {
    let known = try await known(hostname)
    guard known != nil || mayProve(hostname) else { throw APIError.noRegistration }
    let secret = try await secret(at: hostname, isKnown: known != nil, accessToken, for: caller)
    try VerificationSecret.check(
      secret, for: hostname, storageKey, now: now(), isClockTrusted: isClockTrusted())
    let server = if let known { known } else { try await admit(hostname) }
    let newKey = RandomText.alphanumeric(RemoteServers.keyLength)
    try await upstream?.rotate(
      server, from: nil, to: newKey, hostname: server.hostname, contactEmail: server.contactEmail)
    do {
      guard let key = try await servers.transfer(server, to: newKey) else { throw APIError.noRegistration }
      return (server, key, known == nil)
    } catch RemoteServers.RegistrationError.deactivated {
      throw APIError.registrationDeactivated
    }
  }

  private func admit(_ hostname: Hostname) async throws -> RemoteServer {
    try await checkRoom()
    do {
      return try await servers.add(hostname: hostname, contactEmail: "").server
    } catch RemoteServers.RegistrationError.hostnameTaken {
      // A concurrent call has just added this host.
      guard let server = try await servers.find(hostname: hostname) else { throw APIError.noRegistration }
      return server
    }
  }

  /// The secret that a host shows.
  private func secret(
    at hostname: Hostname, isKnown: Bool, _ accessToken: AccessToken, for caller: ClientAddress
  ) async throws -> String {
    do {
      return try await challenges.run(hostname, isRegistered: isKnown, for: caller) {
        try await hosts.verificationSecret(at: hostname, accessToken: accessToken)
      }
    } catch let error as APIError where error.status == .tooManyRequests {
      throw APIError(
        .tooManyRequests, code: error.code,
        """
        The global limits on recent usage of this endpoint have been reached. Please try again later or \
        reach out to \(operatorEmail ?? "the operator of this service") for assistance.
        """, headers: error.headers)
    }
  }
}
