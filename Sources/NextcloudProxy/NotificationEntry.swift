internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import NIOCore
internal import Providers
internal import Sealing

/// One notification for one device, as a server puts it. A class, as it is handed
/// on several times and has many parts to be counted.
final class NotificationEntry: Sendable {
  enum Priority: String {
    case high, normal
  }

  enum Kind: String {
    case alert
    /// A call.
    case voip
    /// Takes others back, and is not shown itself.
    case background
  }

  /// Bytes of a ciphertext: phones have keys of 2048 bits.
  private static let ciphertextBytes = 256
  /// Bytes of a signature: those of the keys that we take.
  private static let signatureBytes = 256...512

  /// The raw 64 bytes.
  let identifier: [UInt8]
  /// The same as it was sent.
  let identifierText: String
  /// The raw 64 bytes.
  let tokenHash: [UInt8]
  /// What the phone decrypts, as it was sent: base64.
  let subject: String
  /// The same as bytes.
  let ciphertext: [UInt8]
  /// The signature of the ciphertext, as it was sent: base64.
  let signatureText: String
  /// The same as bytes.
  let signature: [UInt8]
  let priority: Priority
  let kind: Kind

  /// Reads an entry that is a text; nil if it is not an entry.
  convenience init?(text: String) {
    guard let json = try? JSON.parse(text) else { return nil }
    self.init(json)
  }

  /// Reads an entry; nil for anything else. Names of priorities and kinds that we do not know
  /// stand for the usual ones.
  init?(_ json: JSON) {
    guard let identifierText = json["deviceIdentifier"]?.string,
      let identifier = Base64.decodeStrictly(identifierText), identifier.count == 64,
      let hash = json["pushTokenHash"]?.string, let tokenHash = Hexadecimal.decode(hash),
      tokenHash.count == 64,
      let subject = json["subject"]?.string, let ciphertext = Base64.decodeStrictly(subject),
      ciphertext.count == Self.ciphertextBytes,
      let signatureText = json["signature"]?.string, let signature = Base64.decodeStrictly(signatureText),
      Self.signatureBytes.contains(signature.count),
      let priority = Self.text(json["priority"]), let kind = Self.text(json["type"])
    else { return nil }
    (self.identifier, self.identifierText, self.tokenHash) = (identifier, identifierText, tokenHash)
    (self.subject, self.ciphertext) = (subject, ciphertext)
    (self.signatureText, self.signature) = (signatureText, signature)
    self.priority = Priority(rawValue: priority) ?? .normal
    self.kind = Kind(rawValue: kind) ?? .alert
  }

  /// An optional text; empty if it is not there, nil if something else is.
  private static func text(_ json: JSON?) -> String? {
    switch json ?? .null {
    case .string: json?.string
    case .null: ""
    default: nil
    }
  }
}

/// The body of `POST /notifications`: a form whose values are JSON texts, as PHP builds it from an array, or
/// a JSON object.
enum NotificationsBody {
  /// The entries as they were sent; nil stands for one that cannot be read. Each is read by itself.
  static func entries(_ body: ByteBuffer, type: String, maximum: Int) throws(ProxyError)
    -> [NotificationEntry?]
  {
    if type.contains(ascii: "json") || body.readableBytesView.first == UInt8(ascii: "{") {
      return try entries(json: body, maximum: maximum)
    }
    // A form may have other fields too, which count for nothing but must end somewhere.
    guard let fields = Form.parse(body.readableBytesView, maximumFields: maximum + Form.maximumFields) else {
      throw tooMany(maximum)
    }
    let values = fields.filter { isNotification($0.name) }
    guard !values.isEmpty else { throw missing }
    guard values.count <= maximum else { throw tooMany(maximum) }
    return values.map { NotificationEntry(text: $0.value) }
  }

  private static func entries(json body: ByteBuffer, maximum: Int) throws(ProxyError) -> [NotificationEntry?]
  {
    guard let json = try? JSON.parse(body) else { throw ProxyError("The body is not valid JSON.") }
    guard case .array(let values)? = json["notifications"] else { throw missing }
    guard values.count <= maximum else { throw tooMany(maximum) }
    return values.map { value in
      if case .string(let text) = value { NotificationEntry(text: text) } else { NotificationEntry(value) }
    }
  }

  /// `notifications`, `notifications[]`, `notifications[7]`.
  private static func isNotification(_ name: Name) -> Bool {
    let name = name.text
    return name.utf8.starts(with: "notifications".utf8)
      && (name.utf8.count == 13 || name.utf8.dropFirst(13).first == UInt8(ascii: "["))
  }

  private static var missing: ProxyError {
    ProxyError("There are no notifications: send them as a form with notifications[0], notifications[1] ...")
  }

  private static func tooMany(_ maximum: Int) -> ProxyError {
    ProxyError(.contentTooLarge, "There are too many notifications: send at most \(maximum) at a time.")
  }
}

/// Bytes as pairs of hexadecimal digits.
enum Hexadecimal {
  /// The bytes of a text in either case; nil for anything else.
  static func decode(_ text: String) -> [UInt8]? {
    let digits = text.utf8.compactMap(\.hexadecimalValue)
    guard digits.count == text.utf8.count, digits.count.isMultiple(of: 2) else { return nil }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
  }
}

extension Push {
  /// A notification as its app expects it: both strings as they came, to be verified
  /// and decrypted on the phone.
  init(_ notification: NotificationBatch.Accepted, at now: Date) {
    let entry = notification.entry
    let destination = notification.device.destination
    switch destination.kind {
    case .fcm:
      self = .fcm(
        FCMMessage(
          token: notification.token, project: destination.target,
          data: ["subject": entry.subject, "signature": entry.signatureText],
          priority: entry.priority == .high ? .high : .normal,
          timeToLive: entry.kind == .voip ? Int(Self.ringing) : nil))
    case .apns, .pushKit:
      self = .apns(APNsNotification(notification, isPushKit: destination.kind == .pushKit, at: now))
    }
  }

  /// Seconds after which a call need not ring any more.
  fileprivate static let ringing: TimeInterval = 60
  /// Seconds after which the phone will have found out by itself what has been read elsewhere.
  fileprivate static let takingBack: TimeInterval = 86_400
}

extension APNsNotification {
  fileprivate init(_ notification: NotificationBatch.Accepted, isPushKit: Bool, at now: Date) {
    let entry = notification.entry
    let topic = notification.device.destination.target ?? ""
    // APNs knows tokens in lower case; Talk sends two, the second for calls.
    let tokens = notification.token.lowercased().split(separator: " ").map(String.init)
    let token = tokens.first ?? ""
    func make(_ aps: String, _ token: String, _ topic: String, _ type: PushType, _ priority: Int)
      -> APNsNotification
    {
      // Base64 needs no escaping.
      APNsNotification(
        token: token, topic: topic,
        payload: ByteBuffer(
          string: #"{"aps":\#(aps),"subject":"\#(entry.subject)","signature":"\#(entry.signatureText)"}"#),
        pushType: type, priority: priority)
    }
    switch entry.kind {
    case _ where isPushKit:
      self = make("{}", token, topic + ".voip", .voip, 10)
      expiration = now + Push.ringing
    case .voip where tokens.count > 1:
      self = make("{}", tokens[1], topic + ".voip", .voip, 10)
      expiration = now + Push.ringing
    case .alert, .voip:
      self = make(
        #"{"alert":{"loc-key":"NEW_NOTIFICATION"},"mutable-content":1,"sound":"default"}"#, token, topic,
        .alert, entry.priority == .high ? 10 : 5)
      if entry.kind == .voip { expiration = now + Push.ringing }
      collapseID = String(entry.signatureText.prefix(Self.collapseCharacters))
    case .background:
      self = make(#"{"content-available":1}"#, token, topic, .background, 5)
      expiration = now + Push.takingBack
      collapseID = String(entry.signatureText.prefix(Self.collapseCharacters))
    }
  }

  /// Of a signature: it tells one notification from another, so that the same one sent twice shows once and
  /// no other one is lost. What they say, the proxy cannot see.
  private static let collapseCharacters = 43
}
