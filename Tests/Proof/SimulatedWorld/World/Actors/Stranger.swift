import Crypto
import Foundation
import HTTP
import HTTPTypes
import Providers
import Sealing

/// A hostile sender: a chat server, or devices registered with the push proxy or the Web Push gateway from one address. Its provider
/// refuses every push to its devices, always in the same way, and it sends in bursts. The notifications of
/// other senders must arrive all the same.
///
/// Unchecked: the world has one thread.
final class Stranger: @unchecked Sendable {
  /// The number of strangers' chat servers that a world may have.
  static let chatServers = 2
  /// Made once for all worlds: RSA keys take long.
  static let key = RSAPrivateKey.generate()
  private static let address = "203.0.113.7"

  let number: Int
  private let plan: Plan.StrangerPlan
  private let tokens: [String]
  /// The endpoints of its subscriptions to the gateway.
  private var endpoints: [String] = []
  private unowned let world: World
  private var random: WorldRandom

  init(_ number: Int, _ plan: Plan.StrangerPlan, world: World, seed: UInt64) {
    (self.number, self.plan, self.world) = (number, plan, world)
    random = WorldRandom(seed: seed, "stranger \(number)")
    tokens = (0..<plan.devices).map { device in
      let digits = String(format: "%04x%04x", 0xFFF0 + number, device)
      return plan.kind == .apns
        ? World.secret + String(repeating: digits, count: 6) + "0000"
        : "\(World.secret)-fcm:\(digits)" + String(repeating: "-", count: 100)
    }
    for token in tokens { world.providers[plan.kind]?.tokens[token] = .refused(plan.refusal) }
  }

  /// Registers its devices.
  func come() async {
    for device in tokens.indices {
      for attempt in 1...4 where !world.isOver {
        if let status = await register(device), 200...201 ~= status { break }
        try? await Task.sleep(for: .milliseconds(300 * attempt))
      }
    }
    world.note("stranger \(number): has registered \(tokens.count) devices")
  }

  /// Sends each of its devices `count` notifications, one request after the other.
  func send(each count: Int) async {
    var statuses: [Int: Int] = [:]
    for _ in 0..<count where !world.isOver { statuses[await notify() ?? 0, default: 0] += 1 }
    world.note("stranger \(number): requests were answered \(statuses.sorted { $0.key < $1.key })")
  }

  /// Names all tokens of others as devices of its own users, which the upstream bouncer, where it may have them, does not know.
  func claim() async {
    guard let identity = plan.chatServer else { return }
    let phones = world.phones.filter { world.isLive($0.token) }
    guard !phones.isEmpty else { return }
    func tokens(_ kind: Route.Provider) -> String {
      phones.filter { $0.kind == kind }.map { "\"\($0.token)\"" }.joined(separator: ",")
    }
    let text = "\(World.plaintext)of-a-stranger"
    let realm = World.strangers[identity].realm
    let old = await call(
      "/api/v1/remotes/push/notify", type: "application/json",
      Array(
        """
        {"user_id":7,"user_uuid":"\(Self.user)","realm_uuid":"\(realm)",\
        "gcm_payload":{"event":"message","content":"\(text)"},"gcm_options":{"priority":"high"},\
        "apns_payload":{"alert":"\(text)"},"android_devices":[\(tokens(.fcm))],"apple_devices":[\(tokens(.apns))]}
        """.utf8))
    let items = phones.map {
      let way =
        $0.kind == .apns
        ? #""http_headers":{"apns_priority":10,"apns_push_type":"alert"}"# : #""fcm_priority":"high""#
      return
        #"{"token_id":"\#($0.tokenID.base64)","payload":{"push_key_id":1,"encrypted_data":"\#(text)"},\#(way)}"#
    }
    let encrypted = await call(
      "/api/v1/remotes/push/e2ee/notify", type: "application/json",
      Array(#"{"realm_uuid":"\#(realm)","push_requests":[\#(items.joined(separator: ","))]}"#.utf8))
    world.note("stranger \(number): names others' tokens: \(old ?? 0), \(encrypted ?? 0)")
  }

  private static let user = "8f0b6a4e-8c1e-4d43-9d0f-3f1c2a5b7d10"

  private func register(_ device: Int) async -> Int? {
    let identity: Int
    switch plan.place {
    case .chatServer(let number): identity = number
    case .proxy: return await call("/devices", type: Self.form, Form.encode(fields(of: device)))
    case .gateway: return await subscribe(device)
    }
    return await call(
      "/api/v1/remotes/push/e2ee/register", type: Self.form,
      Form.encode([
        (name: "realm_uuid", value: World.strangers[identity].realm),
        (name: "token_id", value: TokenID(token: tokens[device]).base64),
        (
          name: "encrypted_push_registration",
          value: Phone.sealedRegistration(tokens[device], plan.kind, at: world.time)
        ),
        (name: "bouncer_public_key", value: Node.keyPair.publicKeyBase64),
      ]))
  }

  private func notify() async -> Int? {
    let identity: Int
    switch plan.place {
    case .chatServer(let number): identity = number
    case .proxy: return await notifyProxy()
    case .gateway: return await notifyGateway()
    }
    let payload = #""payload":{"push_key_id":1,"encrypted_data":"\#(World.plaintext)x.x.x"}"#
    let rest =
      plan.kind == .apns
      ? #","http_headers":{"apns_priority":10,"apns_push_type":"alert"}}"# : #","fcm_priority":"high"}"#
    let items = tokens.map { #"{"token_id":"\#(TokenID(token: $0).base64)",\#(payload)\#(rest)"# }
    let body =
      #"{"realm_uuid":"\#(World.strangers[identity].realm)","push_requests":[\#(items.joined(separator: ","))]}"#
    return await call("/api/v1/remotes/push/e2ee/notify", type: "application/json", Array(body.utf8))
  }

  private func notifyProxy() async -> Int? {
    let subject = (0..<256).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    let (text, signature) = (Base64.encode(subject), Base64.encode(Self.key.sign(subject)))
    let entries = tokens.indices.map { device in
      let hash = SHA512.hash(data: Data(tokens[device].utf8)).map { String(format: "%02x", $0) }.joined()
      let entry = """
        {"deviceIdentifier":"\(identifier(of: device))","pushTokenHash":"\(hash)","subject":"\(text)",\
        "signature":"\(signature)","priority":"high","type":"alert"}
        """
      return (name: "notifications[]", value: entry)
    }
    return await call("/notifications", type: Self.form, Form.encode(entries))
  }

  private func subscribe(_ device: Int) async -> Int? {
    let kind =
      plan.kind == .apns
      ? #""token_kind":"apns","ios_app_id":"\#(World.topic)""# : #""token_kind":"fcm""#
    let body = #"{"token":"\#(tokens[device])",\#(kind)}"#
    let answer = await answer("/webpush/v1/subscriptions", type: "application/json", Array(body.utf8))
    if let endpoint = answer?.json["endpoint"]?.string { endpoints.append(endpoint) }
    return answer?.status
  }

  private func notifyGateway() async -> Int? {
    var status: Int?
    for endpoint in endpoints {
      let body = [UInt8](repeating: UInt8(number), count: random.chance(0.1) ? 4096 : 150)
      status = await answer(
        String(endpoint.dropFirst(Gateway.address.count)), type: "application/octet-stream", body,
        [.init("TTL")!: "86400", .contentEncoding: "aes128gcm"]
      )?.status
    }
    return status
  }

  private func call(_ path: String, type: String, _ body: [UInt8]) async -> Int? {
    await answer(path, type: type, body)?.status
  }

  private func answer(
    _ path: String, type: String, _ body: [UInt8], _ more: HTTPFields = [:]
  ) async -> Answer? {
    let node = world.balanced(&random)
    var headers = more
    headers[.contentType] = type
    headers[.forwardedFor] = Self.address
    headers[.userAgent] =
      plan.kind == .apns ? "Mozilla/5.0 (iOS) Nextcloud-Talk v20" : "Mozilla/5.0 (Android) Nextcloud-Talk v20"
    if let identity = plan.chatServer.map({ World.strangers[$0] }) {
      headers[.authorization] = "Basic " + Base64.encode(Array("\(identity.uuid):\(identity.key)".utf8))
    }
    return await node.call(path, headers: headers, body: body)
  }

  private func preimage(of device: Int) -> [UInt8] {
    Array(#"["user\#(device)@cloud.example.net",1]"#.utf8)
  }

  private func identifier(of device: Int) -> String {
    Base64.encode(Array(SHA512.hash(data: preimage(of: device))))
  }

  private func fields(of device: Int) -> [(name: String, value: String)] {
    [
      (name: "pushToken", value: tokens[device]),
      (name: "deviceIdentifier", value: identifier(of: device)),
      (name: "deviceIdentifierSignature", value: Base64.encode(Self.key.sign(preimage(of: device)))),
      (name: "userPublicKey", value: Self.key.publicKey.pem),
    ]
  }

  private static let form = "application/x-www-form-urlencoded"
}

extension HTTPField.Name {
  static let forwardedFor = HTTPField.Name("X-Forwarded-For")!
}

extension Event {
  /// An action of a stranger.
  enum Hostile: Sendable {
    case come(Int)
    case burst(Int, each: Int)
    case claim(Int)
  }
}

extension Event.Hostile: CustomStringConvertible {
  var description: String {
    switch self {
    case .come(let stranger): "stranger \(stranger) has devices registered"
    case .burst(let stranger, let each): "stranger \(stranger) sends \(each) notifications to each device"
    case .claim(let stranger): "stranger \(stranger) names others' tokens as its users'"
    }
  }
}

extension World {
  func perform(_ event: Event.Hostile) {
    switch event {
    case .come(let number): Task { [strangers] in await strangers[number].come() }
    case .burst(let number, let each): Task { [strangers] in await strangers[number].send(each: each) }
    case .claim(let number): Task { [strangers] in await strangers[number].claim() }
    }
  }
}
