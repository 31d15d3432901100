import Delivery
import Foundation
import HTTP
import Logging
import NIOCore
import Providers
import Registrations
import SQL
import Sealing

/// Calls that concern devices of the upstream bouncer (`Documentation/Protocols/Zulip.md` 9.5).
extension Bouncer {
  /// The upstream bouncer, if a server has a link there.
  func upstream(for server: RemoteServer) async throws -> UpstreamBouncer? {
    guard let upstream, try await upstream.serves(server) else { return nil }
    return upstream
  }

  /// Whether notifications of a server may have to be passed on.
  func passesOn(for server: RemoteServer) async throws -> Bool { try await upstream(for: server) != nil }

  /// Stores the key with which a server signs in, if it has a link.
  func keepKey(_ key: String, of server: RemoteServer) async throws {
    try await upstream?.keep(key, of: server)
  }

  /// Passes on a report, if its server has a link.
  func passOnReport(realms: String?, with more: [Form.Field], of server: RemoteServer) async throws {
    try await upstream?.passOnReport(realms: realms, with: more, of: server)
  }

  /// Passes on a registration that is sealed to the upstream bouncer's key.
  func passOn(
    _ sealed: String, tokenID: TokenID, publicKey: String, with more: [Form.Field], _ realm: RemoteRealm,
    _ server: RemoteServer
  ) async throws {
    try await upstream?.register(
      sealed, tokenID: tokenID, publicKey: publicKey, realm: realm.uuid, with: more, of: server.id)
    try await registrations.registerUpstream(tokenID, realm: realm.id)
  }

  /// Treats devices that are not known here as registered upstream, if the server has a link: they may have been registered
  /// there before.
  ///
  /// - Throws: 503 if there are any while the server sends faster than its pace.
  func adoptUnknown(
    _ items: [NotifyRequest.Item], _ realm: RemoteRealm, _ server: RemoteServer,
    _ lookup: inout RegistrationStore.Lookup
  ) async throws {
    guard try await upstream(for: server) != nil else { return }
    let known = Set(lookup.found.keys).union(lookup.elsewhere.keys).union(lookup.unreadable)
    let unknown = Set(items.map(\.tokenID)).subtracting(known)
    guard !unknown.isEmpty else { return }
    try pace.admitUnknown(unknown.count, of: server.id)
    guard room.take(unknown.count, ofServer: server.id) else {
      throw room.refusal(ofServer: server.hostname)
    }
    let adopted = try await registrations.adoptUpstream(unknown, realm: realm.id)
    lookup.elsewhere.merge(adopted) { $1 }
    lookup.new = Set(adopted.keys)
  }

  /// Does the same for the tokens of a user's old apps that the server names.
  private func adoptUnknown(
    _ tokens: [PushToken.Kind: [String]], of user: LegacyUser, _ realm: RemoteRealm?, _ server: RemoteServer
  ) async throws {
    for (kind, texts) in tokens {
      let missing = try await registrations.missing(texts, kind: kind, of: user, server: server.id)
      for token in missing.prefix(UpstreamPush.maximumItems).compactMap({ try? PushToken($0, kind: kind) })
      where token.isOfAnyBouncer {
        // Another spelling of a token that is here counts as missing.
        guard try await registrations.find(token, of: user, server: server.id) == nil else { continue }
        try pace.admitUnknown(1, of: server.id)
        guard room.take(ofServer: server.id) else { throw room.refusal(ofServer: server.hostname) }
        try await registrations.register(
          token, iosAppID: nil, for: user, server: server.id, realm: realm, isElsewhere: true)
      }
    }
  }

  /// Whether an old app's device belongs to the upstream bouncer: no credential here serves its app, or Google has said that
  /// its token is another project's.
  func belongsUpstream(_ registration: Registration) -> Bool {
    switch registration.token.kind {
    case .apns:
      registration.iosAppID.map { deliverer.providers.routeSender(.apns, target: $0) == nil }
        ?? registration.home.isElsewhere
    case .fcm: registration.home.isElsewhere
    }
  }

  /// Registers a device of an old app upstream, if it belongs there. If that fails, its next notification registers it.
  func passOnRegistration(
    of token: PushToken, _ user: LegacyUser, _ realm: RemoteRealm?, with more: [Form.Field],
    _ server: RemoteServer
  ) async throws {
    guard let upstream = try await upstream(for: server),
      let registration = try await registrations.find(token, of: user, server: server.id),
      belongsUpstream(registration)
    else { return }
    try await register(registration, at: upstream, of: user, realm, with: more, server)
  }

  private func register(
    _ registration: Registration, at upstream: UpstreamBouncer, of user: LegacyUser, _ realm: RemoteRealm?,
    with more: [Form.Field] = [], _ server: RemoteServer
  ) async throws {
    guard registration.home != .elsewhere(isRegistered: true) else { return }
    let isAccepted = await upstream.registerLegacy(
      registration.token, iosAppID: registration.iosAppID, of: user, realm: realm?.uuid, with: more,
      server: server)
    if isAccepted { try await upstream.links.confirm([registration.reference.id]) }
  }

  /// Queues the unregistration of a token at the upstream bouncer, if the server has a link.
  ///
  /// - Parameter token: nil for all tokens of the user.
  func passOnUnregistration(
    of token: PushToken?, _ user: LegacyUser, with more: [Form.Field], _ server: RemoteServer
  ) async throws {
    try await upstream?.unregisterLegacy(token, of: user, with: more, server: server)
  }

  /// Sends an unencrypted notification to a user's devices, some of which are upstream.
  ///
  /// - Returns: the devices that it was sent to; nil if it was not sent, because the server has no link.
  func notifyHereAndElsewhere(
    _ notification: LegacyNotification, to user: LegacyUser, believedIn tokens: [PushToken.Kind: [String]],
    _ realm: RemoteRealm?, _ server: RemoteServer, since received: ContinuousClock.Instant, logger: Logger
  ) async throws -> [Registration]? {
    guard let upstream = try await upstream(for: server) else { return nil }
    let began = ContinuousClock.now
    try await adoptUnknown(tokens, of: user, realm, server)
    let all = try await recipients(of: user, realm, server, logger)
    var gone: [Registration] = []
    if let realm { gone = try await registrations.supersededUpstream(all, realm: realm.id) }
    for registration in gone {
      try await upstream.unregisterLegacy(registration.token, of: user, server: server)
    }
    if let realm, !gone.isEmpty { try await registrations.supersedeUpstream(gone, realm: realm.id) }
    let living = all.filter { !gone.contains($0) }
    var passedOn = living.filter(belongsUpstream)
    let local = living.filter { !belongsUpstream($0) }
    var pushes = try notification.pushes(
      to: local, of: .chatServer(server.id), now: now(), logger: logger
    ).map { $0.markingPossibleMove(of: local) }
    if pushes.contains(where: \.movesOnMismatch) {
      // One call goes upstream for all of a user's devices: first it must be known which they are.
      let results = try await deliver(pushes, of: server, since: received)
      let foreign = Set(
        zip(pushes, results).filter { $1 == .refused(.fcmSenderIDMismatch) }.map(\.0.registration))
      passedOn += local.filter { foreign.contains($0.reference) }
      pushes = []
    }
    let members: JSON.Object = [
      "apns_payload": .object(notification.apns), "gcm_payload": .object(notification.fcm),
      "gcm_options": .object(notification.options),
    ]
    pushes += upstream.legacyPushes(
      JSON.Object(members.members + notification.more.members),
      to: passedOn.filter { !notification.members(for: $0.token.kind).isEmpty }, of: user, realm: realm?.uuid,
      server: server)
    let deadline = delivery.deadline
    try await deliver(
      pushes, of: server, since: received, within: max(deadline - (.now - began), .milliseconds(500)))
    return living
  }

  /// Sends a test to an old app's device, which may be upstream.
  ///
  /// - Parameter registration: nil for a token that is not known here.
  /// - Returns: false if it was not sent, because the server has no link.
  func testElsewhere(
    _ token: PushToken, _ registration: Registration?, of user: LegacyUser, _ payload: JSON.Object,
    with more: JSON.Object, _ realm: RemoteRealm?, _ server: RemoteServer,
    since received: ContinuousClock.Instant, logger: Logger
  ) async throws -> Bool {
    guard let upstream = try await upstream(for: server) else { return false }
    if let registration, !belongsUpstream(registration) {
      let result = try await testHere(
        registration, payload, mayMove: true, server, since: received, logger: logger)
      guard result == .refused(.fcmSenderIDMismatch) else { return true }
    }
    if let registration { try await register(registration, at: upstream, of: user, realm, server) }
    let members: JSON.Object = [
      "token": .string(token.text), "token_kind": .integer(token.kind.storage),
      "user_id": .optional(user.id), "user_uuid": .optional(user.uuid?.canonical),
      "realm_uuid": .optional(realm?.uuid.canonical), "base_payload": .object(payload),
    ]
    try await upstream.test(JSON.Object(members.members + more.members), of: server)
    return true
  }
}

extension RegisteredPush {
  /// This push, with the mark that its registration moves upstream if Google says that the token is another project's. A
  /// registration to which something was delivered from here before does not move.
  func markingPossibleMove(of registrations: [Registration]) -> RegisteredPush {
    let own = registrations.first { $0.reference == registration }
    guard case .fcm = push, own?.home == .here(isProven: false) else { return self }
    var copy = self
    copy.movesOnMismatch = true
    return copy
  }
}

extension NotifyRequest.Item {
  /// Maximum size in bytes of an item that is passed on: four times the size of any real one.
  private static let longestSource = 16_384

  /// The push for a registration upstream.
  ///
  /// - Parameters:
  ///   - more: members of the request that are not known here, a JSON object; nil for none.
  ///   - isNew: whether the upstream bouncer may not know it.
  func passedOn(
    for registration: RegistrationReference, _ realm: UUID, with more: String?, isNew: Bool
  ) throws(ItemFault) -> Push {
    // Members that are unknown here are passed on, since the upstream bouncer may know them.
    let body = source ?? ByteBuffer(bytes: json.bytes)
    guard body.readableBytes <= Self.longestSource else { throw .tooLarge }
    let item = UpstreamPush.Item(
      registration: registration.id, name: tokenID.base64, isAPNs: kind == .apns, body: body, isNew: isNew)
    return .upstream(UpstreamPush(.encrypted(realm: realm, more: more), [item]))
  }
}
