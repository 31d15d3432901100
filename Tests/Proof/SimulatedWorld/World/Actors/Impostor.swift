import Crypto
import Foundation
import HTTP
import HTTPTypes
import Providers
import Sealing

/// A hostile chat server that knows everything of the others but their keys, and names their tokens, users, realms and
/// devices in its calls. Nothing of theirs may change by that.
///
/// It may register a token that it knows: then what it sends to that token arrives, as nobody can tell whose token it is.
///
/// Unchecked: the world has one thread.
final class Impostor: @unchecked Sendable {
  /// What it does with what belongs to a phone's user.
  enum Act: Sendable, CaseIterable {
    case notify, notifyForRealm, notifyEncrypted, unregister, unregisterAll, test
    case register, registerForRealm, registerEncrypted, registerAsOtherApp
    case reportRealm, takeName, takeKey, status
    case proxy
  }

  /// What its notifications say.
  static let label = "of-an-impostor"
  private static let address = "203.0.113.66"
  /// More for one device, made once for all worlds: RSA keys take long.
  private static let keys = (0..<4).map { _ in RSAPrivateKey.generate() }

  private unowned let world: World
  private let identity: World.Identity
  private var random: WorldRandom
  /// The tokens that it has registered, or tried to.
  private var tokens: Set<String> = []
  /// The device identifiers at the push proxy, in base64, that it has registered with a key of its own.
  private(set) var identifiers: Set<String> = []
  /// The number of its calls under way.
  private(set) var calls = 0

  init(world: World, seed: UInt64) {
    self.world = world
    identity = World.strangers[0]
    random = WorldRandom(seed: seed, "impostor")
  }

  /// Whether the push proxy is about to answer it.
  private(set) var isAtProxy = false

  /// Row id of its chat server.
  var id: Int64 { identity.id }

  /// Whether what it sends may arrive at this token.
  func mayReach(_ token: String) -> Bool { tokens.contains(token.canonicalToken) }

  func act(_ act: Act, on phone: Phone) async {
    let server = phone.server
    let (isAPNs, token) = (phone.kind == .apns, phone.token)
    let user = [
      ("user_id", "\(server.userID(phone.user))"), ("user_uuid", server.userUUID(phone.user)),
    ]
    let device = [("token", token), ("token_kind", isAPNs ? "1" : "2")]
    let names = #""user_id":\#(user[0].1),"user_uuid":"\#(user[1].1)""#
    let text = World.plaintext + Self.label
    switch act {
    case .notify, .notifyForRealm:
      let realm = act == .notify ? identity.realm : server.realm
      await call(
        "push/notify", isOthers: act == .notifyForRealm,
        """
        {\(names),"realm_uuid":"\(realm)","gcm_payload":{"event":"message","content":"\(text)"},\
        "gcm_options":{"priority":"high"},"apns_payload":{"alert":"\(text)"},\
        "android_devices":["\(token)"],"apple_devices":["\(token)"]}
        """)
    case .notifyEncrypted:
      let realm = random.chance(0.5) ? identity.realm : server.realm
      let payload = #""payload":{"push_key_id":1,"encrypted_data":"\#(text)"}"#
      let way =
        isAPNs ? #""http_headers":{"apns_priority":10,"apns_push_type":"alert"}"# : #""fcm_priority":"high""#
      await call(
        "push/e2ee/notify", isOthers: realm == server.realm,
        #"{"realm_uuid":"\#(realm)","push_requests":[{"token_id":"\#(TokenID(token: token).base64)",\#(payload),\#(way)}]}"#
      )
    case .unregister: await call("push/unregister", user + device)
    case .unregisterAll: await call("push/unregister/all", user)
    case .test:
      await call(
        "push/test_notification", isOthers: false,
        """
        {"token":"\(token)","token_kind":\(isAPNs ? 1 : 2),\(names),"realm_uuid":"\(identity.realm)",\
        "base_payload":{"server":"\(text)","realm_name":"Example","realm_url":"https://chat0.example.net"}}
        """)
    case .register, .registerForRealm, .registerAsOtherApp:
      let isOthers = act == .registerForRealm
      let others = [World.topic, World.secondTopic].first { $0 != phone.topic } ?? phone.topic
      let topic = act == .registerAsOtherApp ? others : phone.topic
      tokens.insert(token.canonicalToken)
      defer { world.ledger.registers(token, at: world.time) }
      await call(
        "push/register", isOthers: isOthers,
        user + device + [("realm_uuid", isOthers ? server.realm : identity.realm)]
          + (isAPNs ? [("ios_app_id", topic)] : []))
      if act == .registerAsOtherApp { await self.act(.notify, on: phone) }
    case .registerEncrypted:
      let realm = random.chance(0.5) ? identity.realm : server.realm
      tokens.insert(token.canonicalToken)
      defer { world.ledger.registers(token, at: world.time) }
      await call(
        "push/e2ee/register", isOthers: realm == server.realm,
        [
          ("realm_uuid", realm), ("token_id", phone.tokenID.base64),
          ("encrypted_push_registration", phone.sealedRegistration()),
          ("bouncer_public_key", Node.keyPair.publicKeyBase64),
        ])
    case .reportRealm:
      // While a realm is free, whoever brings it gets it.
      guard world.tenancy?.isBusy == false else { return }
      let realms = """
        [{"id":2,"uuid":"\(server.realm)","uuid_owner_secret":"guessed","host":"chat0.example.net",\
        "url":"https://chat0.example.net","name":"Example","org_type":10,"date_created":1600000000,\
        "deactivated":false}]
        """
      await call(
        "server/analytics", isOthers: true,
        [("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", realms)])
    case .takeName, .takeKey:
      let isName = act == .takeName
      // While a server has deactivated itself, whoever registers with its name gets it.
      if isName, world.tenancy?.isBusy == true { return }
      await call(
        "server/register", isOthers: true,
        [
          ("zulip_org_id", isName ? identity.uuid : server.uuid), ("zulip_org_key", identity.key),
          ("new_org_key", String(repeating: "z", count: 64)),
          ("hostname", isName ? server.host : "chat0.example.net"), ("contact_email", "admin@example.net"),
        ])
    case .status:
      guard tokens.isEmpty else { return }
      let query = random.pick([
        user[0], user[1], ("token_id", phone.tokenID.base64), ("realm_uuid", server.realm),
      ])
      let answer = await call(
        "push/status?\(query.0)=\(query.1.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "")",
        .get, isOthers: query.0 == "realm_uuid", type: Self.form, [])
      guard tokens.isEmpty, answer?.json["registrations"]?.elements.isEmpty == false else { return }
      world.violate("nobody calls for others", "push/status of \(query.0) tells of another server's phones")
    case .proxy: await actAtProxy()
    }
  }

  /// Registers, notifies and removes what another one's device is known by at the push proxy, with a key of its own.
  private func actAtProxy() async {
    guard let phones = world.nextcloud?.phones, !phones.isEmpty else { return }
    let victim = random.pick(phones)
    let identifier = Base64.encode(victim.identifier)
    func device(_ key: RSAPrivateKey) -> [(String, String)] {
      [
        ("deviceIdentifier", identifier),
        ("deviceIdentifierSignature", Base64.encode(key.sign(victim.preimage))),
        ("userPublicKey", key.publicKey.pem),
      ]
    }
    let agent = "Mozilla/5.0 (Android) Nextcloud-Talk v20"
    switch random.int(in: 0...2) {
    case 0:
      identifiers.insert(identifier)
      for (number, key) in ([Stranger.key] + Self.keys).enumerated() {
        let token = "\(World.secret)-fcm:impostor\(number)" + String(repeating: "-", count: 100)
        world.providers[.fcm]?.tokens[token] = .refused(.senderMismatch)
        await callProxy(.post, "devices", agent, [("pushToken", token)] + device(key))
      }
    case 1: await callProxy(.delete, "devices", agent, device(Stranger.key))
    default:
      var subject = Array("\(World.plaintext)\(Self.label)\"".utf8)
      subject += Array(repeating: 0x20, count: 256 - subject.count)
      let hash = SHA512.hash(data: Data(victim.phone.token.utf8)).map { String(format: "%02x", $0) }.joined()
      let entry = """
        {"deviceIdentifier":"\(identifier)","pushTokenHash":"\(hash)","subject":"\(Base64.encode(subject))",\
        "signature":"\(Base64.encode(Stranger.key.sign(subject)))","priority":"high","type":"alert"}
        """
      await callProxy(.post, "notifications", "Nextcloud Server", [("notifications[0]", entry)])
    }
  }

  private func callProxy(
    _ method: HTTPRequest.Method, _ path: String, _ agent: String, _ fields: [(String, String)]
  ) async {
    var headers: HTTPFields = [.contentType: Self.form, .userAgent: agent]
    headers[.forwardedFor] = Self.address
    isAtProxy = true
    defer { isAtProxy = false }
    let (_, answer) = await world.call(
      world.balanced(&random), path, "/\(path)", method: method, headers: headers,
      body: Form.encode(fields.map { (name: $0.0, value: $0.1) }))
    world.note("impostor: \(path): \(answer.map { "\($0.status)" } ?? "no answer")")
  }

  private func call(_ endpoint: String, isOthers: Bool = false, _ fields: [(String, String)]) async {
    await call(
      endpoint, isOthers: isOthers, type: Self.form, Form.encode(fields.map { (name: $0.0, value: $0.1) }))
  }

  private func call(_ endpoint: String, isOthers: Bool, _ json: String) async {
    await call(endpoint, isOthers: isOthers, type: "application/json", Array(json.utf8))
  }

  /// - Parameter isOthers: whether it calls in the name of another server, or for a realm of another one.
  @discardableResult
  private func call(
    _ endpoint: String, _ method: HTTPRequest.Method = .post, isOthers: Bool, type: String, _ body: [UInt8]
  ) async -> Answer? {
    var headers: HTTPFields = [.contentType: type]
    headers[.authorization] = "Basic " + Base64.encode(Array("\(identity.uuid):\(identity.key)".utf8))
    headers[.forwardedFor] = Self.address
    calls += 1
    let name = String(endpoint.prefix { $0 != "?" })
    let (_, answer) = await world.call(
      world.balanced(&random), name, "/api/v1/remotes/\(endpoint)", method: method, headers: headers,
      body: body)
    calls -= 1
    world.note("impostor: \(name): \(answer.map { "\($0.status)" } ?? "no answer")")
    if isOthers, answer?.status == 200 {
      world.violate("nobody calls for others", "\(name) in another server's name is answered 200")
    }
    return answer
  }

  private static let form = "application/x-www-form-urlencoded"
}
