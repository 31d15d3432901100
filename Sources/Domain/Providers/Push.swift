package import Foundation
import HTTPClient

/// One notification for one token, in its provider's format. `Codable`, because the outbox stores it.
///
/// `indirect`, because it is copied at each step on its way, and fills the memory of each task that has it.
package indirect enum Push: Sendable, Codable {
  case apns(APNsNotification)
  case fcm(FCMMessage)
  /// For the push service of a browser or of a UnifiedPush distributor.
  case webPush(WebPushMessage)
  /// For the upstream bouncer.
  case upstream(UpstreamPush)

  package var provider: Route.Provider {
    switch self {
    case .apns: .apns
    case .fcm: .fcm
    case .webPush: .webPush
    case .upstream: .upstream
    }
  }

  /// The name of a device in a push.
  package enum DeviceName: Sendable, Hashable {
    case token(String)
    /// Its token id, in base64.
    case tokenID(String)
  }
}

/// What a provider's folder says of its notifications. ``Push`` passes it on.
protocol ProviderMessage: Sendable {
  var push: Push { get }
  /// Whether a phone shows it once even if it is sent twice: the provider recognizes it, or replaces it by its collapse id.
  var isRecognizedAgain: Bool { get }
  /// The id that a newer push shares which replaces it in the outbox; nil if none may.
  var collapseID: String? { get }
  /// The bytes of what it brings to the phone.
  var payloadBytes: Int { get }
  /// A hash of the token, valid in this process only; nil for the upstream bouncer.
  var tokenHash: Int? { get }
  /// The route that a push waits for while no credential serves it: without a credential, but for Web Push with the push
  /// service.
  var unservedRoute: Route { get }
  /// Whether the provider takes so much.
  var fits: Bool { get }

  /// The notification's own expiration; one given in seconds counts from `start`.
  func expiration(from start: Date) -> Date?
  /// Shortens a time to live that counts from when the push is sent, by the seconds for which it has waited.
  mutating func wait(_ seconds: TimeInterval)
  /// The name of a registration's device; nil if the push is not for that registration.
  func name(of registration: Int64) -> Push.DeviceName?
  /// Sends it to another token of the same kind, which its app has got instead.
  ///
  /// - Parameter token: in its canonical spelling.
  mutating func redirect(to token: String, in environment: APNsCredential.Environment?)
  /// Redirects it to the present token of its device, if that is another one.
  ///
  /// - Parameters:
  ///   - present: as it was registered.
  ///   - target: the target of its registration.
  /// - Returns: whether it was redirected.
  mutating func follow(_ present: String, of target: String?) -> Bool
  /// The request to the provider.
  ///
  /// - Parameter target: of the route.
  func request(
    from sender: Sender, target: String, _ authorization: String
  ) throws(Sender.Unsendable) -> ProviderRequest
}

extension ProviderMessage {
  mutating func wait(_ seconds: TimeInterval) {}
  mutating func redirect(to token: String, in environment: APNsCredential.Environment?) {}
  mutating func follow(_ present: String, of target: String?) -> Bool { false }

  /// What is left of a time to live, in seconds.
  static func rest(of timeToLive: Int?, after seconds: TimeInterval) -> Int? {
    timeToLive.map { max(min(1, $0), Int(Double($0) - max(0, seconds))) }
  }
}

// MARK: What the message says

extension Push {
  /// Costs an allocation: what each push is asked has a switch of its own.
  private var message: any ProviderMessage {
    switch self {
    case .apns(let message): message
    case .fcm(let message): message
    case .webPush(let message): message
    case .upstream(let message): message
    }
  }

  private mutating func change(_ body: (inout any ProviderMessage) -> Void) {
    var message = message
    body(&message)
    self = message.push
  }

  package var isRecognizedAgain: Bool { message.isRecognizedAgain }
  package var collapseID: String? { message.collapseID }
  package var unservedRoute: Route { message.unservedRoute }
  package var fits: Bool { message.fits }
  package func name(of registration: Int64) -> DeviceName? { message.name(of: registration) }
  package mutating func wait(_ seconds: TimeInterval) { change { $0.wait(seconds) } }

  package mutating func redirect(to token: String, in environment: APNsCredential.Environment? = nil) {
    change { $0.redirect(to: token, in: environment) }
  }

  package mutating func follow(_ present: String, of target: String?) -> Bool {
    var isRedirected = false
    change { isRedirected = $0.follow(present, of: target) }
    return isRedirected
  }

  package var payloadBytes: Int {
    switch self {
    case .apns(let message): message.payloadBytes
    case .fcm(let message): message.payloadBytes
    case .webPush(let message): message.payloadBytes
    case .upstream(let message): message.payloadBytes
    }
  }

  package var tokenHash: Int? {
    switch self {
    case .apns(let message): message.tokenHash
    case .fcm(let message): message.tokenHash
    case .webPush(let message): message.tokenHash
    case .upstream(let message): message.tokenHash
    }
  }

  package func expiration(from start: Date) -> Date? {
    switch self {
    case .apns(let message): message.expiration(from: start)
    case .fcm(let message): message.expiration(from: start)
    case .webPush(let message): message.expiration(from: start)
    case .upstream(let message): message.expiration(from: start)
    }
  }

  func request(
    from sender: Sender, target: String, _ authorization: String
  ) throws(Sender.Unsendable) -> ProviderRequest {
    switch self {
    case .apns(let message): try message.request(from: sender, target: target, authorization)
    case .fcm(let message): try message.request(from: sender, target: target, authorization)
    case .webPush(let message): try message.request(from: sender, target: target, authorization)
    case .upstream(let message): try message.request(from: sender, target: target, authorization)
    }
  }
}

extension UUID {
  /// A new UUID of version 4 (RFC 9562), from the system's generator. `UUID()` does the same, but opens `/dev/urandom` each
  /// time, which costs several times as much.
  package static func random() -> UUID {
    var bits = UInt128.random(in: 0 ... .max)
    bits = bits & ~(0xF << 76) | 0x4 << 76
    bits = bits & ~(0b11 << 62) | 0b10 << 62
    return withUnsafeBytes(of: bits.bigEndian) { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
  }
}

extension UInt8 {
  var isAlphanumeric: Bool { isDigit || (0x61...0x7a).contains(self | 0x20) }
  var isDigit: Bool { (0x30...0x39).contains(self) }
  /// Whether base64url has it (RFC 4648 section 5).
  var isBase64URL: Bool { isAlphanumeric || self == UInt8(ascii: "-") || self == UInt8(ascii: "_") }
}
