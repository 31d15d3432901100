import Foundation
import HTTP
import HTTPTypes
import Providers
import Sealing

/// A stock Zulip server. How it reacts to the bouncer's answers is described in
/// Documentation/Protocols/Zulip.md 2.8.
///
/// Unchecked: the world has one thread.
final class ChatServer: @unchecked Sendable {
  /// The state of a phone's registration, as the server sees it.
  enum Device: Equatable {
    /// The server has asked its bouncer and has no answer yet, or has given up. The app's attempts are
    /// refused.
    case pending(token: String)
    case registered(token: String)
    /// Refused; the app's next attempt is sent again.
    case failed
  }

  let number: Int
  var uuid: String
  /// Its hostname, where there are several tenants.
  var host: String
  /// Row id.
  var id: Int64
  var key: String
  let realm: String
  unowned let world: World
  private var random: WorldRandom
  private(set) var devices: [Int: Device] = [:]
  /// Phones whose registration the server gave up although a node had accepted the connection.
  private(set) var stuck: Set<Int> = []
  /// Whether the server is older than feature level 483: such a server keeps the legacy registration of an
  /// app after its transition.
  let isOld: Bool
  /// Legacy tokens of its users, by phone.
  var legacy: [Int: String] = [:]
  /// What it knows for sure of its legacy registrations.
  var certain = CertainLegacy()
  /// Whether its realm may be another server's already.
  var isMoving = false
  /// What is added to its users' numbers since it has moved to another server.
  private(set) var numberOffset = 0
  /// The calls under way that sign all of a user's old apps out, and until when one may remove what is registered
  /// meanwhile.
  var removalsOfAll: [Int: (open: Int, until: Double)] = [:]
  /// Whether it names users by UUID too; a server of old names them by number alone.
  var knowsUUIDs: Bool
  /// When it last began to name its users in another way.
  var renamedAt = -1.0

  init(_ number: Int, world: World, seed: UInt64) {
    (self.number, self.world) = (number, world)
    let identity = world.plan.tenants?.identity(number) ?? World.servers[number]
    (uuid, id, key, realm) = (identity.uuid, identity.id, identity.key, identity.realm)
    host = "chat\(world.plan.tenants?.server(of: number) ?? number).example.com"
    knowsUUIDs = world.plan.tenants?.startsWithNumbers(number) != true
    random = WorldRandom(seed: seed, "server \(number)")
    var age = WorldRandom(seed: seed, "age of server \(number)")
    isOld = age.chance(0.4)
  }

  var name: String { "server \(number)" }

  func call(_ endpoint: String, type: String, _ body: String) async -> (node: Node, answer: Answer?) {
    await call(endpoint, as: uuid, key, type: type, body)
  }

  /// A call with an id and a key, which may be former ones.
  @discardableResult
  func call(
    _ endpoint: String, as uuid: String, _ key: String, type: String, _ body: String
  ) async -> (node: Node, answer: Answer?) {
    var headers: HTTPFields = [.contentType: type]
    headers[.authorization] = "Basic " + Data("\(uuid):\(key)".utf8).base64EncodedString()
    let began = world.time
    let (node, answer) = await world.call(
      world.balanced(&random), endpoint, "/api/v1/remotes/\(endpoint)", headers: headers,
      body: Array(body.utf8))
    if let tenancy = world.tenancy, let answer {
      var names = [uuid, Tenancy.name(uuid, key: key)]
      if body.contains(realm) { names.append(Tenancy.name(uuid, realm: realm)) }
      tenancy.answered(self, endpoint, names, answer.status, since: began)
    }
    return (node, answer)
  }

  /// It has moved to another server with all its data. Its users have the same UUIDs there, and other numbers, and what was
  /// registered under the former numbers has ended.
  func hasComeToAnother() {
    isMoving = false
    renamedAt = world.time
    numberOffset += 1000
    certain.forgetNumbers()
    learnUUIDs()
    for phone in world.phones where phone.server === self {
      guard let token = legacy[phone.number], certain.presentSince(phone, token) == nil else { continue }
      phone.forgottenAt = world.time
    }
  }

  func form(_ fields: [(String, String)]) -> String {
    fields.map { "\($0)=\($1.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "")" }
      .joined(separator: "&")
  }

  /// Registers a phone for notifications.
  func register(_ phone: Phone) async {
    if phone.isLegacy { return await registerLegacy(phone) }
    learnUUIDs()
    switch devices[phone.number] {
    case .registered(phone.token): return
    // "The app's attempts are refused."
    case .pending(phone.token): return
    default: break
    }
    let token = phone.token
    defer { world.ledger.registers(token, at: world.time) }
    devices[phone.number] = .pending(token: token)
    let body = form([
      ("realm_uuid", realm), ("token_id", phone.tokenID.base64),
      ("encrypted_push_registration", phone.sealedRegistration()),
      (
        "bouncer_public_key",
        (phone.isOfStore ? UpstreamBouncer.keyPair : Node.keyPair).publicKeyBase64
      ),
    ])
    var wasTaken = false
    for attempt in 1...4 {
      let (node, answer) = await call(
        "push/e2ee/register", type: "application/x-www-form-urlencoded", body)
      guard devices[phone.number] == .pending(token: token) else { return }
      if let answer, answer.status < 500 {
        devices[phone.number] = answer.status == 200 ? .registered(token: token) : .failed
        world.note("\(name): registers \(phone.name): \(answer.status)")
        if answer.status == 200 { await phoneIsEncrypted(phone) }
        return
      }
      // With the upstream bouncer more is asked of the database; while that is slow, 15 s may not be enough.
      let isExcused =
        phone.isOfStore && (!world.database.isWell || world.ledger.databaseTroubleAt > world.time - 27)
      if answer != nil || node.isAlive && !isExcused { wasTaken = true }
      world.note(
        "\(name): registers \(phone.name), attempt \(attempt): \(answer.map { "\($0.status)" } ?? "no answer")"
      )
      try? await Task.sleep(for: .milliseconds(300 * attempt))
    }
    if wasTaken { stuck.insert(phone.number) }
  }

  /// Forgets a phone that has logged out.
  func forget(_ phone: Phone) {
    phone.forgottenAt = world.time
    devices[phone.number] = nil
    if legacy[phone.number] != nil { Task { await unregisterLegacy(phone) } }
  }

  // MARK: Notifications

  /// Tells these users of a message.
  func notify(_ label: String, users: [Int]) async {
    guard !users.isEmpty else { return }
    await withTaskGroup { group in
      group.addTask { await self.notifyEncrypted(label, users) }
      for user in users { group.addTask { await self.notifyLegacy(label, user) } }
    }
  }

  private func notifyEncrypted(_ label: String, _ users: [Int]) async {
    let phones = world.phones.filter { phone in
      guard phone.server === self, users.contains(phone.user) else { return false }
      if case .registered = devices[phone.number] { return true }
      return false
    }
    guard !phones.isEmpty else { return }
    var items: [String] = []
    var tokens: [(phone: Phone, token: String)] = []
    for phone in phones {
      guard case .registered(let token)? = devices[phone.number] else { continue }
      tokens.append((phone, token))
      let payload =
        #""payload":{"push_key_id":1,"encrypted_data":"\#(World.plaintext)\#(label).s\#(number).p\#(phone.number)""#
      let way =
        phone.kind == .apns
        ? payload + #"},"http_headers":{"apns_priority":10,"apns_push_type":"alert"}}"#
        : payload + #"},"fcm_priority":"high"}"#
      items.append(#"{"token_id":"\#(TokenID(token: token).base64)","# + way)
    }
    let body = #"{"realm_uuid":"\#(realm)","push_requests":["# + items.joined(separator: ",") + "]}"
    let began = world.time
    let (node, answer) = await call("push/e2ee/notify", type: "application/json", body)
    world.note(
      "\(name): \(label) to \(tokens.map(\.phone.name).joined(separator: ", ")): \(answer.map { "\($0.status)" } ?? "no answer") (\(node.name))"
    )
    guard let answer, answer.status == 200 else { return }
    let gone = Set(answer.json["delete_token_ids"]?.strings ?? [])
    for (phone, token) in tokens {
      if gone.contains(TokenID(token: token).base64) {
        world.note("\(name): forgets \(phone.name), which the bouncer calls gone")
        if world.isLive(token) { world.wasBelieved(token, of: phone) }
        if devices[phone.number] == .registered(token: token) { devices[phone.number] = nil }
      } else {
        world.promised(label, to: token, of: phone, at: began)
      }
    }
  }
}

extension JSON {
  var strings: [String]? {
    guard case .array(let values) = self else { return nil }
    return values.compactMap(\.string)
  }
}
