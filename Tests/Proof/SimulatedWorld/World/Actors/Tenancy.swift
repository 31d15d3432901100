import Foundation
import HTTP
import HTTPTypes
import Providers
import Registrations
import SQL
import Sealing

/// Changes of who may call and with what is sent: keys of chat servers, servers that are switched off, realms that move to
/// another server, credentials. One change at a time.
///
/// Unchecked: the world has one thread.
final class Tenancy: @unchecked Sendable {
  unowned let world: World
  private var random: WorldRandom
  /// Whether a change is under way.
  private(set) var isBusy = false
  /// Names that are refused since a time: a server, a server's key, or a realm at a server.
  private(set) var refusedSince: [String: Double] = [:]
  /// The names of those who called although they are refused.
  private(set) var formers: [String] = []
  /// When a credential was last replaced, taken away or given back.
  private(set) var credentialsChangedAt = 0.0
  /// When something last changed for a server.
  private(set) var changedAt: [String: Double] = [:]
  /// The periods in which a topic, or Google's project, is served by no credential at some node.
  private(set) var unserved: [(target: String, from: Double, to: Double)] = []

  init(world: World, seed: UInt64) {
    self.world = world
    random = WorldRandom(seed: seed, "tenancy")
  }

  static func name(_ uuid: String, key: String) -> String { "\(uuid) with key \(key)" }
  static func name(_ uuid: String, realm: String) -> String { "\(uuid) for realm \(realm)" }

  /// The work of the operator, in another process.
  private var remote: RemoteServers {
    RemoteServers(
      database: DatabaseServer.Direct(server: world.server), storageKey: StorageKey(bytes: Node.storageKey),
      now: { Date() })
  }

  private func peers(_ server: ChatServer) -> [ChatServer] { world.servers.filter { $0.uuid == server.uuid } }

  /// Begins a change; false while another is under way.
  private func begin(_ server: ChatServer) -> Bool {
    guard !isBusy, !world.isOver else { return false }
    isBusy = true
    changedAt[server.uuid] = .infinity
    return true
  }

  private func end(_ servers: ChatServer...) {
    isBusy = false
    for server in servers { changedAt[server.uuid] = world.time }
  }

  // MARK: Keys

  /// A chat server gets a new key, as `register_server --rotate-key` does: it goes on with the old one for a while.
  func rotateKey(_ server: ChatServer, goesOnFor seconds: Double) async {
    guard begin(server) else { return }
    defer { end(server) }
    let (old, new) = (server.key, key())
    let fields = [
      ("zulip_org_id", server.uuid), ("zulip_org_key", old), ("new_org_key", new),
      ("hostname", server.host), ("contact_email", "admin@example.com"),
    ]
    var status: Int?
    while status != 200, !world.isOver {
      status = await server.call("server/register", type: ChatServer.form, server.form(fields)).answer?.status
      world.note("\(server.name): changes its key: \(status.map { "\($0)" } ?? "no answer")")
      if status == 200 { break }
      if let status, status < 500, status != 429 {
        // The answer to the first try was lost, and a wrong clock may have shortened the old key's ten minutes.
        guard isClockInDoubt else { return refuse(server, "server/register", status) }
        _ = try? await remote.rotateKey(server.id, to: new)
        break
      }
      try? await Task.sleep(for: .seconds(10))
    }
    refusedSince[Tenancy.name(server.uuid, key: old)] = world.time + Self.grace
    changedAt[server.uuid] = world.time
    try? await Task.sleep(for: .seconds(seconds))
    for peer in peers(server) { peer.key = new }
  }

  /// The operator gives a chat server a new key, as after a leak: the old one is worth nothing from then on.
  func replaceKey(_ server: ChatServer) async {
    guard begin(server) else { return }
    defer { end(server) }
    let old = server.key
    guard let known = try? await remote.find(id: server.id),
      let new = try? await remote.transfer(known, to: key())
    else { return }
    refusedSince[Tenancy.name(server.uuid, key: old)] = world.time
    for peer in peers(server) { peer.key = new }
    world.note("-- the operator replaces the key of \(server.name)")
    Task { await intrude(server, by: Tenancy.name(server.uuid, key: old), as: server.uuid, old) }
  }

  private func key() -> String {
    String(
      (0..<RemoteServers.keyLength).map { _ in random.pick(Array("abcdefghijklmnopqrstuvwxyz0123456789")) })
  }

  /// How long a former key is still accepted, in seconds.
  static let grace = 600.0
  var isClockInDoubt: Bool { world.ledger.clockTroubleAt > 0 }

  // MARK: Servers and realms

  /// A chat server is switched off for a while, by itself or by the operator.
  func deactivate(_ server: ChatServer, byItself: Bool, for seconds: Double) async {
    guard begin(server) else { return }
    defer { end(server) }
    await switchOff(server, byItself: byItself)
    Task { await intrude(server, by: server.uuid, as: server.uuid, server.key) }
    try? await Task.sleep(for: .seconds(seconds))
    await switchOn(server)
  }

  private func switchOff(_ server: ChatServer, byItself: Bool) async {
    if byItself {
      guard await server.call("server/deactivate", type: ChatServer.form, "").answer?.status == 200 else {
        return
      }
    } else {
      try? await remote.setDeactivated(server.id, true)
    }
    refusedSince[server.uuid] = world.time
    world.note("-- \(server.name) is switched off")
  }

  private func switchOn(_ server: ChatServer) async {
    refusedSince[server.uuid] = nil
    changedAt[server.uuid] = .infinity
    try? await remote.setDeactivated(server.id, false)
    world.note("-- \(server.name) is switched on")
  }

  /// A realm moves to another chat server, with its data: users have the same UUIDs there, and other numbers. The former
  /// server lets it go, or is switched off.
  func move(_ realm: ChatServer, to other: ChatServer, isSwitchedOff: Bool) async {
    guard realm.uuid != other.uuid, !isBusy, refusedSince[realm.uuid] == nil, begin(realm) else { return }
    changedAt[other.uuid] = .infinity
    let former = (uuid: realm.uuid, key: realm.key, host: realm.host)
    realm.isMoving = true
    let left = peers(realm).filter { $0 !== realm }
    if isSwitchedOff {
      try? await remote.setDeactivated(realm.id, true)
    } else {
      await upload(left.map { ($0, false) } + [(realm, true)], as: realm)
    }
    await upload((peers(other) + [realm]).map { ($0, false) }, as: other)
    if isSwitchedOff { try? await remote.setDeactivated(realm.id, false) }
    refusedSince[Tenancy.name(former.uuid, realm: realm.realm)] = world.time
    refusedSince[Tenancy.name(other.uuid, realm: realm.realm)] = nil
    changedAt[former.uuid] = world.time
    (realm.uuid, realm.id, realm.key, realm.host) = (other.uuid, other.id, other.key, other.host)
    realm.hasComeToAnother()
    changedAt[other.uuid] = world.time
    world.note("-- \(realm.name) moves to the server of \(other.name)")
    // A server that has let a realm go still lists it, as deactivated.
    if !isSwitchedOff { await upload(left.map { ($0, false) } + [(realm, true)], as: realm, former) }
    end(other)
    Task {
      await intrude(realm, by: Tenancy.name(former.uuid, realm: realm.realm), as: former.uuid, former.key)
    }
  }

  /// Reports the realms of a chat server until that succeeds.
  private func upload(
    _ realms: [(ChatServer, isDeactivated: Bool)], as server: ChatServer,
    _ former: (uuid: String, key: String, host: String)? = nil
  ) async {
    let (uuid, key, host) = former ?? (server.uuid, server.key, server.host)
    let list = realms.map { realm, isDeactivated in
      """
      {"id":\(realm.number + 2),"uuid":"\(realm.realm)","uuid_owner_secret":"\(realm.ownerSecret)",\
      "host":"\(host)","url":"https://\(host)","name":"Example","org_type":10,\
      "date_created":1600000000,"deactivated":\(isDeactivated)}
      """
    }
    let body = server.form([
      ("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", "[\(list.joined(separator: ","))]"),
    ])
    while !world.isOver {
      let answer = await server.call("server/analytics", as: uuid, key, type: ChatServer.form, body).answer
      world.note("\(server.name): reports its realms: \(answer.map { "\($0.status)" } ?? "no answer")")
      if answer?.status == 200 { return }
      if answer?.status == 400 {
        return world.violate("a realm can be let go", "\(server.name): \(answer?.text ?? "")")
      }
      try? await Task.sleep(for: .seconds(5))
    }
  }

  /// Calls for a realm with what is refused now, as long as `name` is.
  private func intrude(_ server: ChatServer, by name: String, as uuid: String, _ key: String) async {
    formers.append(name)
    let label = "\(Self.formerLabel)\(formers.count - 1)"
    for wait in [Self.inForceAfter + 0.01, 0.3, 0.7, 0.2, 0.5, 3, 10] {
      try? await Task.sleep(for: .seconds(wait))
      guard !world.isOver, refusedSince[name] != nil else { return }
      let ids = world.phones.filter { $0.server === server }.map {
        #"{"token_id":"\#($0.tokenID.base64)","payload":{"push_key_id":1,"encrypted_data":"\#(World.plaintext)\#(label)"},"fcm_priority":"high"}"#
      }
      let body = #"{"realm_uuid":"\#(server.realm)","push_requests":["# + ids.joined(separator: ",") + "]}"
      await server.call(
        "push/e2ee/notify", as: uuid, key, type: "application/json", body)
    }
  }

  // MARK: Credentials

  /// Takes a credential away for a while, or replaces Apple's key for good.
  func change(_ change: Event.CredentialChange, for seconds: Double) async {
    guard !isBusy else { return }
    isBusy = true
    defer { isBusy = false }
    let all = world.credentials
    switch change {
    case .apple(let number, isReplaced: true):
      world.credentials.apns[number].keyID = "NEW" + all.apns[number].keyID.suffix(7)
      world.credentials.apns[number].privateKey = World.spareKey
    case .apple(let number, isReplaced: false): world.credentials.apns.remove(at: number)
    case .google: world.credentials.fcm = []
    }
    let began = world.time
    await tellNodes()
    if world.credentials.apns.count == all.apns.count, !world.credentials.fcm.isEmpty { return }
    try? await Task.sleep(for: .seconds(seconds))
    world.credentials = all
    await tellNodes()
    let targets =
      switch change {
      case .apple(let number, _): all.apns[number].topics
      case .google: [Self.google]
      }
    unserved += targets.map { ($0, began, world.time) }
  }

  /// Lets every node read its key folder anew, within two seconds.
  private func tellNodes() async {
    let told = world.credentials
    credentialsChangedAt = world.time
    for node in world.nodes {
      try? await Task.sleep(for: .seconds(random.seconds(0...(2 / Double(world.nodes.count)))))
      if world.credentials == told { node.use(told) }
    }
  }
}
