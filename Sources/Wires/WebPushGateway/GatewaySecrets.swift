import Basics
import HTTP
import HTTPClient
import Providers
import Registrations
import Sealing

/// The name of a subscription or a message: 16 random bytes.
struct GatewayID: Sendable, Hashable {
  private static let count = 16

  let bytes: [UInt8]

  init() { bytes = (0..<Self.count).map { _ in .random(in: .min ... .max) } }

  init?(_ bytes: [UInt8]) {
    guard bytes.count == Self.count else { return nil }
    self.bytes = bytes
  }

  /// Reads ``text``; nil if it is malformed.
  init?(_ text: String) {
    guard text.utf8.count == 22, let bytes = Base64URL.decode(text), Base64URL.encode(bytes) == text else {
      return nil
    }
    self.init(bytes)
  }

  /// In base64url.
  var text: String { Base64URL.encode(bytes) }
}

/// The name by which a sender can take a message back, and a newer message replaces it: its id, or for those of a topic a
/// keyed hash of that.
struct GatewayName: Sendable, Hashable {
  static let topicCount = 24

  let bytes: [UInt8]

  init(_ id: GatewayID) { bytes = id.bytes }

  init?(_ bytes: [UInt8]) {
    guard bytes.count == Self.topicCount || GatewayID(bytes) != nil else { return nil }
    self.bytes = bytes
  }

  /// Reads ``text``; nil if it is malformed.
  init?(_ text: String) {
    guard text.utf8.count <= 32, let bytes = Base64URL.decode(text), Base64URL.encode(bytes) == text else {
      return nil
    }
    self.init(bytes)
  }

  /// In base64url, 22 or 32 characters.
  var text: String { Base64URL.encode(bytes) }
}

/// The secrets of subscriptions. They are keyed hashes of the subscription's id, so nothing is stored, and what is none
/// of ours is refused without asking the database.
struct GatewaySecrets: Sendable {
  private static let endpointPurpose = StorageKey.Purpose("gateway.endpoint")
  private static let secretPurpose = StorageKey.Purpose("gateway.secret")
  private static let topicPurpose = StorageKey.Purpose("gateway.topic")
  private static let ownerPurpose = StorageKey.Purpose("gateway.owner")
  private static let senderPurpose = StorageKey.Purpose("gateway.sender")
  /// Bytes of an id that may say something.
  private static let markCount = 4

  let storageKey: StorageKey

  /// A new subscription's id: 16 random bytes, the last 4 of which are a keyed hash of the others if it is for one sender, so
  /// that this is known even when nothing else of it is.
  func newID(forOneSender: Bool) -> GatewayID {
    let id = GatewayID()
    guard forOneSender else { return id }
    let random = Array(id.bytes.dropLast(Self.markCount))
    return GatewayID(random + mark(random)) ?? id
  }

  /// Whether a subscription was made for one sender. An id in 2^32 says so by chance.
  func wasForOneSender(_ id: GatewayID) -> Bool {
    mark(Array(id.bytes.dropLast(Self.markCount))) == Array(id.bytes.suffix(Self.markCount))
  }

  private func mark(_ random: [UInt8]) -> [UInt8] {
    Array(storageKey.hash(Base64URL.encode(random), for: Self.senderPurpose).prefix(Self.markCount))
  }

  /// The last part of an endpoint's path: the id and its keyed hash, 64 characters of base64url.
  func endpoint(of id: GatewayID) -> String {
    Base64URL.encode(id.bytes + storageKey.hash(id.text, for: Self.endpointPurpose))
  }

  /// The subscription of an endpoint; nil if we never gave it to anybody.
  func subscription(ofEndpoint text: String) -> GatewayID? {
    guard text.utf8.count == 64, let bytes = Base64URL.decode(text),
      let id = GatewayID(Array(bytes.prefix(16))),
      storageKey.matches(id.text, hash: Array(bytes.dropFirst(16)), for: Self.endpointPurpose)
    else { return nil }
    return id
  }

  /// The secret by which an app manages its subscription.
  func secret(of id: GatewayID) -> String {
    Base64URL.encode(storageKey.hash(id.text, for: Self.secretPurpose))
  }

  func isSecret(_ text: String, of id: GatewayID) -> Bool {
    guard text.utf8.count == 43, let bytes = Base64URL.decode(text) else { return false }
    return storageKey.matches(id.text, hash: bytes, for: Self.secretPurpose)
  }

  /// The name of a topic's messages: neither the provider nor another sender can guess it.
  func name(ofTopic topic: String, at id: GatewayID) -> GatewayName? {
    GatewayName(
      Array(storageKey.hash("\(id.text) \(topic)", for: Self.topicPurpose).prefix(GatewayName.topicCount)))
  }

  /// The owner that stands for an address.
  func owner(at address: ClientAddress) -> Owner { storageKey.owner(at: address, for: Self.ownerPurpose) }

  /// The owner that stands for a sender's key: a keyed hash, so that it is not stored.
  func owner(ofSender key: [UInt8]) -> Owner {
    .address(storageKey.number(Base64URL.encode(key), for: Self.ownerPurpose))
  }
}
