internal import Delivery
internal import Foundation
internal import HTTP
internal import Logging
internal import NIOCore
internal import Providers
internal import Registrations
internal import SQL
internal import Sealing

/// Devices that are the other bouncer's (`Documentation/Protocols/Zulip.md` 9.5).
extension Bouncer {
  /// The other bouncer, if a server has a second app there.
  func upstream(for server: RemoteServer) async throws -> Upstream? {
    guard let upstream, try await upstream.links.link(of: server.id) != nil else { return nil }
    return upstream
  }

  /// Takes devices that are not known here for the other bouncer's, which may know them from before.
  ///
  /// - Throws: 503 if there are any while the server is over its pace.
  func adoptUpstream(
    _ items: [NotifyRequest.Item], _ realm: RemoteRealm, _ server: RemoteServer,
    _ lookup: inout RegistrationStore.Lookup
  ) async throws {
    let known = Set(lookup.found.map(\.token.id)).union(lookup.upstream.keys).union(lookup.unreadable)
    let unknown = Set(items.map(\.tokenID)).subtracting(known)
    guard !unknown.isEmpty else { return }
    try pace.admitUnknown(unknown.count, of: server.id)
    let adopted = try await registrations.adoptUpstream(unknown, realm: realm.id)
    lookup.upstream.merge(adopted) { $1 }
    lookup.new = Set(adopted.keys)
  }

  /// The same for tokens of a user's old apps that the server has.
  private func adoptUpstream(
    _ tokens: [PushToken.Kind: [String]], of user: LegacyUser, _ realm: RemoteRealm?, _ server: RemoteServer
  ) async throws {
    for (kind, texts) in tokens {
      let missing = try await registrations.missing(texts, kind: kind, of: user, server: server.id)
      for token in missing.prefix(UpstreamPush.mostItems).compactMap({ try? PushToken($0, kind: kind) })
      where !WebPushSubscription.isToken(token.text) {
        // Another spelling of a token that is here counts as missing.
        guard try await registrations.find(token, of: user, server: server.id) == nil else { continue }
        try pace.admitUnknown(1, of: server.id)
        try await registrations.register(
          token, iosAppID: nil, for: user, server: server.id, realm: realm, isUpstream: true)
      }
    }
  }

  /// Whether an old app's device is the other bouncer's: no credential of ours serves its app, or Google has said that
  /// its token is another project's.
  func isUpstreams(_ registration: Registration) -> Bool {
    switch registration.token.kind {
    case .apns:
      registration.iosAppID.map { deliverer.providers.routeSender(.apns, target: $0) == nil }
        ?? registration.home.isUpstream
    case .fcm: registration.home.isUpstream
    }
  }

  /// Registers a device of an old app there. If it fails, that goes with its next notification.
  func tell(
    _ upstream: Upstream, of registration: Registration, _ user: LegacyUser, _ realm: RemoteRealm?,
    _ server: RemoteServer
  ) async throws {
    guard registration.home != .upstream(isTold: true) else { return }
    let isTold = await upstream.registerLegacy(
      registration.token, iosAppID: registration.iosAppID, of: user, realm: realm?.uuid, server: server)
    if isTold { try await registrations.noteToldUpstream([registration.reference.id]) }
  }

  /// Has the other bouncer told that a token, or (nil) all tokens of a user, are no longer to be used.
  func unregisterUpstream(_ token: PushToken?, of user: LegacyUser, _ server: RemoteServer) async throws {
    guard let upstream = try await upstream(for: server) else { return }
    let form = Array(Upstream.form(token, of: user).readableBytesView)
    try await upstream.links.unregister(token, of: user, server: server.id, form: form)
    upstream.wake()
  }

  /// Sends an unencrypted notification to a user's devices, which are partly the other bouncer's.
  ///
  /// - Returns: the devices that it was sent to.
  func notifyWithUpstream(
    _ notification: LegacyNotification, to user: LegacyUser, believedIn tokens: [PushToken.Kind: [String]],
    _ realm: RemoteRealm?, _ server: RemoteServer, since received: ContinuousClock.Instant, logger: Logger
  ) async throws -> [Registration] {
    let began = ContinuousClock.now
    try await adoptUpstream(tokens, of: user, realm, server)
    let all = try await reach(user, realm, server, logger)
    var gone: [Registration] = []
    if let realm { gone = try await registrations.supersededUpstream(all, realm: realm.id) }
    for registration in gone { try await unregisterUpstream(registration.token, of: user, server) }
    if let realm, !gone.isEmpty { try await registrations.supersedeUpstream(gone, realm: realm.id) }
    let living = all.filter { !gone.contains($0) }
    var theirs = living.filter(isUpstreams)
    let ours = living.filter { !isUpstreams($0) }
    var pushes = try notification.pushes(
      to: ours, of: .chatServer(server.id), now: now(), logger: logger
    ).map { $0.perhapsUpstreams(among: ours) }
    if pushes.contains(where: \.movesUpstreamOnMismatch) {
      // Upstream sends one call to all of a user's devices: first it must be known which are its own.
      let results = try await deliver(pushes, of: server, since: received)
      let foreign = Set(
        zip(pushes, results).filter { $1 == .refused(.fcmSenderIDMismatch) }.map(\.0.registration))
      theirs += ours.filter { foreign.contains($0.reference) }
      pushes = []
    }
    pushes += upstreamPushes(notification, to: theirs, of: user, realm, server)
    let deadline = delivery.deadline
    try await deliver(
      pushes, of: server, since: received, within: max(deadline - (.now - began), .milliseconds(500)))
    return living
  }

  /// One call for all of a user's devices there.
  private func upstreamPushes(
    _ notification: LegacyNotification, to theirs: [Registration], of user: LegacyUser, _ realm: RemoteRealm?,
    _ server: RemoteServer
  ) -> [RegisteredPush] {
    let theirs = theirs.filter {
      !($0.token.kind == .apns ? notification.apns : notification.fcm).members.isEmpty
    }.prefix(UpstreamPush.mostItems)
    guard !theirs.isEmpty else { return [] }
    let items = theirs.map { registration in
      UpstreamPush.Item(
        registration: registration.reference.id, name: registration.token.text,
        isAPNs: registration.token.kind == .apns,
        body: registration.home == .upstream(isTold: true)
          ? nil
          : Upstream.form(
            registration.token, iosAppID: registration.iosAppID, of: user, realm: realm?.uuid),
        isNew: registration.home != .upstream(isTold: true))
    }
    let body: JSON = [
      "user_id": .optional(user.id), "user_uuid": .optional(user.uuid?.canonical),
      "realm_uuid": .optional(user.uuid == nil ? nil : realm?.uuid.canonical),
      "apns_payload": .object(notification.apns), "gcm_payload": .object(notification.fcm),
      "gcm_options": .object(notification.options),
    ]
    let push = Push.upstream(
      UpstreamPush(.legacy(UUID()), items, notification: ByteBuffer(bytes: body.bytes)))
    return theirs.map {
      RegisteredPush(push: push, registration: $0.reference, owner: .chatServer(server.id))
    }
  }
}

extension RegisteredPush {
  /// The same, taking Google's word that the token is another project's as said of the other bouncer's, unless we have
  /// reached it before.
  func perhapsUpstreams(among registrations: [Registration]) -> RegisteredPush {
    let mine = registrations.first { $0.reference == registration }
    guard case .fcm = push, mine?.home == .ours(isProven: false) else { return self }
    var copy = self
    copy.movesUpstreamOnMismatch = true
    return copy
  }
}
