import Foundation
import HTTPClient
import NIOCore
import NIOHPACK
import Providers

/// Apple or Google: keeps the state of every token, and may have faults.
///
/// Unchecked: the world has one thread.
final class Provider: @unchecked Sendable {
  let kind: Route.Provider
  private unowned let world: World
  private var random: WorldRandom
  /// A separate stream for strangers' pushes, so that they do not change the random numbers of others.
  private var strangersRandom: WorldRandom
  /// Its current faults, the latest last.
  var troubles: [Trouble] = []
  /// When its last fault ended, in seconds.
  var mendedAt = -1000.0
  /// The state of every token.
  var tokens = TokenTable<TokenState>()

  enum TokenState {
    case live(Phone)
    /// Valid again, but the provider still reports it as dead.
    case revived(Phone, since: Double)
    case dead(since: Double)
    /// A stranger's token: every push to it is refused.
    case refused(Refusal)
  }

  init(_ kind: Route.Provider, world: World, seed: UInt64) {
    (self.kind, self.world) = (kind, world)
    random = WorldRandom(seed: seed, "\(kind)")
    strangersRandom = WorldRandom(seed: seed, "\(kind) to strangers")
  }

  var isUnreachable: Bool { troubles.contains(.unreachable) }

  func wayThere() async {
    try? await Task.sleep(for: .milliseconds(random.int(in: 5...80)))
  }

  /// A request under way: its answer and its latency.
  struct Way: Sendable {
    let latency: Double
    /// Whether the request was sent, and so may have been accepted.
    let isSent: Bool
    let answer: @Sendable (Life) -> Result<ProviderResponse, TransportFailure>
  }

  /// Takes a request in.
  func take(_ request: ProviderRequest, from life: Life) async -> Way {
    let push = world.standIn.push(
      kind == .webPush ? world.taken(.init(request)) : ReceivedPush(request, provider: kind))
    if let phone = world.owners[push.token], phone.isOfStore { world.askedForStore(push, of: phone) }
    world.checkApp(push, kind, from: life)
    if case .refused(let refusal)? = tokens[push.token], !isUnreachable { return refuse(refusal) }
    let trouble = troubles.last
    var latency = random.seconds(0.01...0.2)
    switch trouble {
    case .unreachable:
      return Way(latency: random.seconds(0...1), isSent: false) { _ in .failure(.unconnected(.connectFailed))
      }
    case .silent:
      return Way(latency: 3600, isSent: true) { _ in .failure(.silent) }
    case .slow: latency = random.seconds(1...20)
    case .late: latency = random.seconds(50...80)
    default: break
    }
    let isLost = trouble == .losingAnswers && random.chance(0.5)
    let isTaken = !isLost || random.chance(0.7)
    let response = isTaken ? answer(push, trouble) : nil
    let isAccepted = response.map { 200...201 ~= $0.status } ?? false
    let inTime = latency <= 5 + Node.answerTimeout / .seconds(1) - 1
    let arrival =
      isAccepted ? Arrival(push, at: world.time, from: life, isAnswerLost: isLost || !inTime) : nil
    if let arrival { world.arrived(arrival) }
    return Way(latency: latency, isSent: true) { [world] life in
      guard life.isAlive else { return .failure(.connectionLost) }
      guard !isLost, inTime, let response else { return .failure(.connectionLost) }
      arrival?.answeredAt = world.time
      return .success(response)
    }
  }

  private func refuse(_ refusal: Refusal) -> Way {
    let answer: ProviderResponse
    switch refusal {
    case .silent: return Way(latency: 3600, isSent: true) { _ in .failure(.silent) }
    case .thirdPartyAuth:
      answer = response(401, [:], Self.google(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"))
    case .senderMismatch:
      answer = response(403, [:], Self.google(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"))
    case .tooMany(let seconds):
      answer = tooMany(seconds.map { ["retry-after": "\($0)"] } ?? [:])
    }
    return Way(latency: strangersRandom.seconds(0.01...0.2), isSent: true) { life in
      life.isAlive ? .success(answer) : .failure(.connectionLost)
    }
  }

  private func tooMany(_ headers: [String: String]) -> ProviderResponse {
    kind == .apns
      ? response(429, headers, #"{"reason":"TooManyRequests"}"#)
      : response(429, headers, Self.google(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"))
  }

  private func answer(_ push: ReceivedPush, _ trouble: Trouble?) -> ProviderResponse {
    switch trouble {
    case .failing(let status): return refusal(status)
    case .overloaded(let seconds):
      return tooMany(["retry-after": seconds.isMultiple(of: 2) ? "\(seconds)" : date(in: seconds)])
    case .odd(let number):
      let odd = OddAnswer.all(of: kind)[number]
      if odd.meaning == .dead || odd.meaning == .suspect {
        if let phone = livingPhone(push.token) { phone.lies += 1 }
      }
      return response(odd.status, [Meaning.header: odd.meaning.rawValue], odd.body)
    case .busy(let seconds): return refusal(503, ["retry-after": "\(seconds)"])
    case .lyingDead:
      if let phone = livingPhone(push.token) { phone.lies += 1 }
      return dead(since: world.time)
    case .lyingSuspect:
      world.owners[push.token]?.isCalledForeign = true
      if let phone = livingPhone(push.token) { phone.lies += 1 }
      return kind == .apns
        ? response(400, [:], #"{"reason":"BadDeviceToken"}"#)
        : response(403, [:], Self.google(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"))
    case .refusing(let reason):
      return kind == .apns
        ? response(400, [:], #"{"reason":"\#(reason)"}"#)
        : response(400, [:], Self.google(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"))
    default: break
    }
    if world.owners[push.token]?.isOfStore == true {
      return response(403, [:], Self.google(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"))
    }
    if kind == .apns, world.tenancy != nil, !world.credentials.apns.contains(where: { $0.keyID == push.key })
    {
      return response(403, [:], #"{"reason":"InvalidProviderToken"}"#)
    }
    if push.label == Impostor.label, kind == .apns, push.topic != world.owners[push.token]?.topic {
      return response(400, [:], #"{"reason":"DeviceTokenNotForTopic"}"#)
    }
    switch tokens[push.token] {
    case .live where kind == .webPush: return response(201, [:], "")
    case .live:
      return response(200, ["apns-id": push.id], kind == .apns ? "" : #"{"name":"projects/p/messages/1"}"#)
    case .revived(_, let since): return dead(since: since)
    case .dead(let since): return dead(since: since)
    case .refused, nil:
      return kind == .apns
        ? response(400, [:], #"{"reason":"BadDeviceToken"}"#)
        : response(400, [:], Self.google(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"))
    }
  }

  private func livingPhone(_ token: String) -> Phone? {
    switch tokens[token] {
    case .live(let phone), .revived(let phone, _): phone
    default: nil
    }
  }

  private func dead(since: Double) -> ProviderResponse {
    if kind == .webPush { return response(410, [:], "") }
    guard kind == .apns else { return response(404, [:], Self.google(404, "NOT_FOUND", "UNREGISTERED")) }
    let milliseconds = Int64((World.epoch + since) * 1000)
    return response(410, [:], #"{"reason":"Unregistered","timestamp":\#(milliseconds)}"#)
  }

  /// An HTTP-date for `Retry-After`.
  private func date(in seconds: Int) -> String {
    var time = time_t(World.epoch + world.time) + seconds
    var parts = tm()
    gmtime_r(&time, &parts)
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
      let count = strftime(text.baseAddress!, 64, "%a, %d %b %Y %H:%M:%S GMT", &parts)
      return String(decoding: text.prefix(count).map(UInt8.init), as: UTF8.self)
    }
  }

  private func refusal(_ status: Int, _ headers: [String: String] = [:]) -> ProviderResponse {
    switch (kind, status) {
    case (_, 502): response(502, [:], "<html><body>Bad Gateway</body></html>")
    case (.apns, 403): response(403, [:], #"{"reason":"ExpiredProviderToken"}"#)
    case (.apns, 404): response(404, [:], #"{"reason":"BadPath"}"#)
    case (_, 404): response(404, [:], #"{"error":{"code":404,"message":"m","status":"NOT_FOUND"}}"#)
    case (.apns, 500): response(500, [:], #"{"reason":"InternalServerError"}"#)
    case (.apns, _): response(503, headers, #"{"reason":"ServiceUnavailable"}"#)
    case (_, 403): response(401, [:], Self.google(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"))
    case (_, 500): response(500, [:], Self.google(500, "INTERNAL", "INTERNAL"))
    default: response(503, headers, Self.google(503, "UNAVAILABLE", "UNAVAILABLE"))
    }
  }

  private static func google(_ code: Int, _ status: String, _ error: String) -> String {
    """
    {"error":{"code":\(code),"message":"m","status":"\(status)","details":[{"@type":\
    "type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\(error)"}]}}
    """
  }

  private func response(_ status: Int, _ headers: [String: String], _ body: String) -> ProviderResponse {
    ProviderResponse(
      status: status, headers: HPACKHeaders(headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }),
      body: ByteBuffer(string: body))
  }
}

/// A fault of a provider.
enum Trouble: Hashable, Sendable, CustomStringConvertible {
  case unreachable
  /// Accepts connections and never answers.
  case silent
  case slow
  /// Answers so slowly that nearly every request times out.
  case late
  /// Half of the answers are lost; most of their requests are accepted.
  case losingAnswers
  case failing(Int)
  case overloaded(seconds: Int)
  /// Answers 503, and names a time.
  case busy(seconds: Int)
  /// One of its ``OddAnswer``s.
  case odd(Int)
  /// Reports every token as dead.
  case lyingDead
  /// Refuses every token, as with a wrong key or topic.
  case lyingSuspect
  case refusing(String)

  var description: String {
    switch self {
    case .unreachable: "cannot be reached"
    case .silent: "answers nothing"
    case .slow: "is slow"
    case .late: "takes about a minute for an answer"
    case .losingAnswers: "loses answers"
    case .failing(let status): "answers \(status)"
    case .overloaded(let seconds): "answers 429, Retry-After \(seconds)"
    case .busy(let seconds): "answers 503, Retry-After \(seconds)"
    case .odd(let number): "gives its odd answer \(number)"
    case .lyingDead: "calls every token dead"
    case .lyingSuspect: "refuses every token"
    case .refusing(let reason): "refuses every notification (\(reason))"
    }
  }
}
