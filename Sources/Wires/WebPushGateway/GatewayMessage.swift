import Foundation
import HTTP
import HTTPTypes
import NIOCore
import Providers
import Sealing

/// A message as a sender posts it to an endpoint (RFC 8030 section 5). Its body is encrypted for the app.
struct GatewayMessage: Sendable {
  /// Bytes of a body that every push service has to take (RFC 8030 section 7.2).
  static let maximumBody = 4096
  /// Seconds for which a message is kept at most: FCM's four weeks.
  static let longestLife = 28 * 86_400
  /// Bytes of a header that belongs to the encryption.
  private static let maximumHeader = 512
  /// Bytes that a body has at least: of `aes128gcm`, a header with a key of 65 bytes, a delimiter and a tag (RFC 8291
  /// section 4); of `aesgcm`, two bytes of padding and a tag.
  private static let shortest = ["aes128gcm": 103, "aesgcm": 18]

  /// The content coding, and what `aesgcm` has in headers.
  struct Encryption: Sendable, Hashable {
    let encoding: String
    var cryptoKey: String?
    var encryption: String?

    /// What an app needs of the two to decrypt: the sender's key and the salt, in base64url without padding.
    fileprivate var parameters: [(String, String)] {
      [("crypto_key", cryptoKey, "dh"), ("encryption", encryption, "salt")].compactMap {
        member, header, name in
        header.flatMap { HeaderParameters($0)[name] }.map { (member, $0.inBase64URL) }
      }
    }
  }

  enum Urgency: String, CaseIterable, Comparable {
    case veryLow = "very-low"
    case low, normal, high

    /// Whether a phone that saves power gets it at once (RFC 8030 section 5.3).
    var isPrompt: Bool { self >= .normal }

    /// The number that the database stores: 1 to 4.
    var storage: Int64 { Int64((Self.allCases.firstIndex(of: self) ?? 0) + 1) }

    init?(storage: Int64?) {
      guard let found = Self.allCases.first(where: { $0.storage == storage }) else { return nil }
      self = found
    }

    static func < (one: Self, other: Self) -> Bool { one.storage < other.storage }
  }

  /// Names its body where that waits here.
  let id = GatewayID()
  let timeToLive: Int
  let urgency: Urgency
  let topic: String?
  /// Nil if there is no body.
  let encryption: Encryption?
  let body: ByteBuffer

  /// - Throws: 400 or 415 if the headers or the body break the RFCs.
  init(_ headers: HTTPFields, _ body: ByteBuffer) throws(APIError) {
    guard let life = headers.value(.timeToLive) else {
      throw APIError(
        "TTL is missing: for how many seconds the message is worth delivering (RFC 8030 section 5.2).")
    }
    guard (1...20).contains(life.utf8.count), life.utf8.allSatisfy(\.isASCIIDigit) else {
      throw APIError("TTL must be a number of seconds.")
    }
    timeToLive = min(Int(life) ?? .max, Self.longestLife)
    guard let urgency = Urgency(rawValue: headers.value(.urgency)?.lowercased() ?? Urgency.normal.rawValue)
    else {
      throw APIError("Urgency must be very-low, low, normal or high.")
    }
    self.urgency = urgency
    // Some senders pad it (RFC 4648 section 5).
    topic = headers.value(.topic).map { text in
      let padding = text.utf8.reversed().prefix { $0 == UInt8(ascii: "=") }.count
      return padding <= 2 ? String(Substring(text.utf8.dropLast(padding))) : text
    }
    guard topic?.isName(1...32, with: "-_") ?? true else {
      throw APIError("Topic must be 1 to 32 characters of base64url.")
    }
    encryption = body.readableBytes > 0 ? try Self.encryption(headers, of: body.readableBytes) : nil
    self.body = body
  }

  private static func encryption(_ headers: HTTPFields, of bytes: Int) throws(APIError) -> Encryption {
    let encoding = headers.value(.contentEncoding)?.lowercased() ?? ""
    guard let shortest = shortest[encoding] else {
      throw .unsupportedEncoding
    }
    guard bytes >= shortest else { throw APIError("The body is too short to be encrypted with \(encoding).") }
    guard encoding == "aesgcm" else { return Encryption(encoding: encoding) }
    let keys = headers.value(.cryptoKey) ?? ""
    let encryption = headers.value(.encryption) ?? ""
    guard keys.utf8.count <= maximumHeader, encryption.utf8.count <= maximumHeader else {
      throw APIError("Crypto-Key and Encryption may have \(maximumHeader) bytes each.")
    }
    // The sender's VAPID key is nothing to the app, and takes room in the push.
    let cryptoKey = keys.split { $0 == ";" || $0 == "," }.filter {
      !$0.lowercased().contains("p256ecdsa=")
    }.joined(separator: ";")
    guard HeaderParameters(cryptoKey)["dh"] != nil, HeaderParameters(encryption)["salt"] != nil else {
      throw APIError("aesgcm needs Crypto-Key with dh, and Encryption with salt.")
    }
    return Encryption(encoding: encoding, cryptoKey: cryptoKey, encryption: encryption)
  }
}

extension GatewayMessage {
  /// The push to the app; nil if the token does not open.
  ///
  /// - Parameters:
  ///   - topic: the name of its topic.
  ///   - isKept: whether the body waits here, as it does not fit.
  func push(to subscription: GatewaySubscription, topic: GatewayName?, isKept: Bool, at now: Date) -> Push? {
    guard let token = subscription.token else { return nil }
    var members = [("subscription", subscription.id.text)]
    if let topic { members.append(("topic", topic.text)) }
    let name = (topic ?? GatewayName(id)).text
    if let encryption {
      members.append(("encoding", encryption.encoding))
      if isKept {
        members.append(("message", id.text))
      } else {
        members.append(("body", Base64URL.encode(body.readableBytesView)))
        members += encryption.parameters
      }
    }
    switch token {
    case .webPush: return nil
    case .fcm:
      return .fcm(
        FCMMessage(
          token: token.text, data: Dictionary(uniqueKeysWithValues: members),
          priority: urgency.isPrompt ? .high : .normal, timeToLive: timeToLive, replacementID: name))
    case .apns:
      let isSilent = subscription.silentUrgency.map { urgency <= $0 } ?? false
      var aps: JSON.Object = isSilent ? ["content-available": 1] : Self.alert
      if urgency.isPrompt && !isSilent { aps["sound"] = "default" }
      let payload = JSON.object(
        JSON.Object(
          [.init("aps", .object(aps))] + members.map { JSON.Object.Member($0.0, .string($0.1)) }))
      return .apns(
        APNsNotification(
          token: token.canonical, topic: subscription.appID ?? "", payload: ByteBuffer(bytes: payload.bytes),
          pushType: isSilent ? .background : .alert, priority: urgency.isPrompt && !isSilent ? 10 : 5,
          // To Apple, 1970 means: try once.
          expiration: timeToLive == 0 ? Date(timeIntervalSince1970: 0) : now + TimeInterval(timeToLive),
          collapseID: name, environment: subscription.environment))
    }
  }

  /// What an iPhone shows until the app has decrypted the message. The text is its own key: where the app has no translation
  /// of it, iOS shows the key.
  private static let alert: JSON.Object = [
    "alert": ["title-loc-key": "New notification"], "mutable-content": 1,
  ]
}
