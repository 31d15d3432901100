import Foundation
import HTTP
import HTTPClient
import NIOCore
import NIOHPACK
import Providers
import Sealing

/// The upstream bouncer, where phones with the store's app are registered. It behaves as Zulip's own does, but for
/// one thing: an expired registration that is registered again lives again. Apple and Google never fail it.
///
/// Unchecked: the world has one thread.
final class UpstreamBouncer: @unchecked Sendable {
  /// The bundle id of the store's app.
  static let topic = "org.store.app"
  static let keyPair = BouncerKeyPair()

  /// A registration of an encrypted device.
  struct Device {
    let token: String
    var isExpired = false
  }

  /// A registration of an old app.
  struct OldApp: Hashable {
    let server: String
    let user: String
    let token: String
    let isAPNs: Bool
  }

  unowned let world: World
  private var random: WorldRandom
  /// Its current faults, the latest last.
  var troubles: [UpstreamTrouble] = []
  /// Whether everything has worked for long enough that every old app that has been updated is known as updated.
  var isSettled = false
  /// By realm and token id.
  var devices: [String: [String: Device]] = [:]
  var oldApps: Set<OldApp> = []
  var realms: Set<String>
  private let toStrangers: UpstreamTrouble?

  init(_ plan: Plan.UpstreamPlan, world: World, seed: UInt64) {
    self.world = world
    random = WorldRandom(seed: seed, "vendor's bouncer")
    realms = Set((plan.knowsRealms ? World.servers + World.strangers : World.strangers).map(\.realm))
    toStrangers = plan.toStrangers
    _ = Self.keyPair
  }

  /// A call under way.
  struct Call {
    let server: World.Identity
    let body: ByteBuffer
    let life: Life
    /// Whether nothing of the answer reaches the caller.
    let isAnswerLost: Bool
    let trouble: UpstreamTrouble?
    /// Whether a stranger's chat server is the caller.
    var isStrangers: Bool { World.strangers.contains { $0.uuid == server.uuid } }
    var arrivals: [Arrival] = []
  }

  /// Takes a call in.
  func take(_ request: ProviderRequest, from life: Life) -> Provider.Way {
    let server = caller(request)
    let isStrangers = World.strangers.contains { $0.uuid == server?.uuid }
    let trouble = isStrangers ? toStrangers ?? troubles.last : troubles.last
    let latency: Double
    switch trouble {
    case .unreachable:
      return Provider.Way(latency: random.seconds(0...1), isSent: false) { _ in
        .failure(.unconnected(.connectFailed))
      }
    case .silent: return Provider.Way(latency: 3600, isSent: true) { _ in .failure(.silent) }
    case .slow: latency = random.seconds(1...20)
    case .late: latency = random.seconds(50...80)
    default: latency = random.seconds(0.01...0.3)
    }
    var (response, isTaken, isLost): (ProviderResponse?, Bool, Bool) = (nil, true, false)
    switch trouble {
    case .losingAnswers:
      isLost = random.chance(0.5)
      isTaken = !isLost || random.chance(0.7)
    case .failing(let status):
      isTaken = status == 502 && random.chance(0.5)
      response =
        status == 502 ? .vendor(502, "<html><body>Bad Gateway</body></html>") : .vendor(status, "")
    case .refusingKeys:
      isTaken = false
      response = .vendor(401, #"{"result":"error","msg":"Zulip server auth failure","code":"UNAUTHORIZED"}"#)
    case .overloaded(let seconds):
      isTaken = false
      response = .vendor(
        429, #"{"result":"error","msg":"API usage exceeded rate limit","code":"RATE_LIMIT_HIT"}"#,
        ["retry-after": "\(seconds)"])
    case .nonsense:
      isTaken = random.chance(0.5)
      response = .vendor(
        200, random.pick(["", "{}", "[1]", "<html></html>", #"{"result":"error","msg":"no"}"#]))
    default: break
    }
    let inTime = latency <= 5 + Node.answerTimeout / .seconds(1) - 1
    var call: Call?
    if let server {
      call = Call(
        server: server, body: request.body(), life: life,
        isAnswerLost: isLost || !inTime || response != nil, trouble: trouble)
    } else {
      world.violate("signs in as the server", "a call to the upstream bouncer with another key")
      response = .vendor(401, "")
    }
    let path = request.headers.first(name: ":path") ?? ""
    let endpoint = String(path.dropFirst("/api/v1/remotes/".count))
    if isTaken, call != nil {
      let made = answer(endpoint, &call!)
      if response == nil { response = made }
    }
    let arrivals = call?.arrivals ?? []
    world.note("vendor: \(endpoint): \(isLost ? "answer lost" : response.map { "\($0.status)" } ?? "")")
    return Provider.Way(latency: latency, isSent: true) { [world, response, isLost] life in
      guard life.isAlive, !isLost, inTime, let response else { return .failure(.connectionLost) }
      if arrivals.first?.isAnswerLost == false { for arrival in arrivals { arrival.answeredAt = world.time } }
      return .success(response)
    }
  }

  /// The server that has signed in.
  private func caller(_ request: ProviderRequest) -> World.Identity? {
    (World.servers + World.strangers).first {
      request.headers.first(name: "authorization")
        == "Basic " + Data("\($0.uuid):\($0.key)".utf8).base64EncodedString()
    }
  }

  private func answer(_ endpoint: String, _ call: inout Call) -> ProviderResponse {
    let json = (try? JSON.parse(call.body)) ?? .null
    let fields = Dictionary(
      (Form.parse(call.body.readableBytesView) ?? []).map { ($0.name.text, $0.value) }
    ) { $1 }
    return switch endpoint {
    case "push/e2ee/register": register(fields, call)
    case "push/e2ee/notify": notify(json, &call)
    case "push/register": registerOldApp(fields, call)
    case "push/notify": notifyOldApps(json, &call)
    case "push/unregister": unregisterOldApp(fields, call)
    case "server/analytics/status":
      .vendor(
        200,
        #"{"result":"success","msg":"","last_realm_count_id":0,"last_installation_count_id":0,"last_realmauditlog_id":0}"#
      )
    case "server/analytics": report(fields)
    default: .vendor(404, "")
    }
  }

  private func report(_ fields: [String: String]) -> ProviderResponse {
    guard fields["realm_counts"] != nil, fields["installation_counts"] != nil else {
      return .refusal("Missing")
    }
    let reported = fields["realms"].flatMap { try? JSON.parse($0) }?.elements ?? []
    realms.formUnion(reported.compactMap { $0["uuid"]?.string?.lowercased() })
    return .vendor(200, #"{"result":"success","msg":"","realms":{}}"#)
  }
}

extension ProviderResponse {
  static func vendor(_ status: Int, _ body: String, _ headers: [String: String] = [:]) -> ProviderResponse {
    ProviderResponse(
      status: status, headers: HPACKHeaders(headers.map { ($0.key, $0.value) }),
      body: ByteBuffer(string: body))
  }

  static let success = vendor(200, #"{"result":"success","msg":""}"#)

  static func refusal(_ message: String, _ code: String = "BAD_REQUEST", _ status: Int = 400)
    -> ProviderResponse
  { vendor(status, #"{"result":"error","msg":"\#(message)","code":"\#(code)"}"#) }
}
