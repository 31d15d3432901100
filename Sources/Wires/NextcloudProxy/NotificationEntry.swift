import Foundation
import HTTP
import HTTPTypes
import NIOCore
import Providers
import Sealing

/// One notification for one device, as a server sends it. It is a class because it has many fields and is
/// passed on several times, which would cost a retain for each.
final class NotificationEntry: Sendable {
  enum Priority: String {
    case high, normal
  }

  enum Kind: String {
    case alert
    /// An incoming call.
    case voip
    /// A removal of other notifications, which is not shown itself.
    case background
  }

  /// Bytes of a ciphertext: phones have 2048-bit keys.
  private static let ciphertextBytes = 256
  /// Bytes of a signature, by the sizes of accepted keys.
  private static let signatureBytes = 256...512

  /// The raw 64 bytes, SHA-512.
  let identifier: [UInt8]
  /// The identifier as it was sent.
  let identifierText: String
  /// The raw 64 bytes, SHA-512.
  let tokenHash: [UInt8]
  /// The ciphertext as it was sent, in base64.
  let subject: String
  /// The decoded `subject`.
  let ciphertext: [UInt8]
  /// The signature of the ciphertext as it was sent, in base64.
  let signatureText: String
  /// The decoded signature.
  let signature: [UInt8]
  let priority: Priority
  let kind: Kind

  /// Reads an entry from its JSON text; nil if it is malformed.
  convenience init?(text: String, _ additions: inout Additions) {
    guard let json = try? JSON.parse(text) else { return nil }
    self.init(json, &additions)
  }

  /// Reads an entry; nil if it is malformed. Unknown priorities and kinds count as the usual ones.
  init?(_ json: JSON, _ additions: inout Additions) {
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
    self.identifier = identifier
    self.identifierText = identifierText
    self.tokenHash = tokenHash
    self.subject = subject
    self.ciphertext = ciphertext
    self.signatureText = signatureText
    self.signature = signature
    self.priority = Priority(rawValue: priority) ?? .normal
    self.kind = Kind(rawValue: kind) ?? .alert
    additions.addMembers(of: json, at: "notifications[]", except: Self.members)
    if Priority(rawValue: priority) == nil, !priority.isEmpty {
      additions.addValue(priority, of: "notifications[].priority")
    }
    if Kind(rawValue: kind) == nil, !kind.isEmpty {
      additions.addValue(kind, of: "notifications[].type")
    }
  }

  private static let members: [Name] = [
    "deviceIdentifier", "pushTokenHash", "subject", "signature", "priority", "type",
  ]

  /// An optional text: empty if absent, nil if it is of another type.
  private static func text(_ json: JSON?) -> String? {
    switch json ?? .null {
    case .string: json?.string
    case .null: ""
    default: nil
    }
  }
}

/// The body of `POST /notifications`: a form whose values are JSON texts, as PHP builds it from an array, or
/// a JSON object. Its entries are read a few at a time, since they take several times the memory of their texts.
struct NotificationsBody: Sendable {
  private enum Rest {
    case form(Form.Reader)
    case json(ArraySlice<JSON>)
  }

  private var rest: Rest
  /// The number of entries not read yet.
  private(set) var count: Int
  /// Whether it is so long that it must be read in pieces, so that other requests need not wait.
  let isLong: Bool
  private(set) var additions = Additions()

  /// - Parameters:
  ///   - maximum: number of entries.
  ///   - longestJSON: bytes of a JSON object, which is not read in pieces. Servers send forms.
  init(_ body: ByteBuffer, type: String, maximum: Int, longestJSON: Int = 1 << 20) throws {
    isLong = body.readableBytes > LongRead.short
    if type.contains(ascii: "json") || body.readableBytesView.first == UInt8(ascii: "{") {
      guard body.readableBytes <= longestJSON else { throw NIOTooManyBytesError(maxBytes: longestJSON) }
      guard let json = try? JSON.parse(body) else { throw APIError("The body is not valid JSON.") }
      guard case .array(let values)? = json["notifications"] else { throw Self.missing }
      additions.addMembers(of: json, except: ["notifications"])
      rest = .json(values[...])
      count = values.count
    } else {
      var names = Form.Reader(body)
      count = 0
      // A form may have other fields too, which are ignored but limited in number.
      var others: [Name] = []
      while let name = names.nextNames(1).first {
        if Self.isNotification(name) { count += 1 } else { others.append(name) }
        guard count <= maximum, others.count <= Form.maximumFields else { throw Self.tooMany(maximum) }
      }
      guard count > 0 else { throw Self.missing }
      additions.addParameters(others)
      rest = .form(Form.Reader(body))
    }
    guard count <= maximum else { throw Self.tooMany(maximum) }
  }

  /// Reads the next entries, at most this many. A malformed one is nil.
  mutating func next(_ most: Int) -> [NotificationEntry?] {
    var entries: [NotificationEntry?] = []
    switch rest {
    case .form(var form):
      while entries.count < min(most, count), let field = form.next(1).first {
        guard Self.isNotification(field.name) else { continue }
        entries.append(NotificationEntry(text: field.value, &additions))
      }
      rest = .form(form)
    case .json(let values):
      entries = values.prefix(most).map { value in
        if case .string(let text) = value {
          NotificationEntry(text: text, &additions)
        } else {
          NotificationEntry(value, &additions)
        }
      }
      rest = .json(values.dropFirst(most))
    }
    count -= entries.count
    return entries
  }

  /// Matches `notifications`, `notifications[]` and `notifications[7]`.
  private static func isNotification(_ name: Name) -> Bool {
    let name = name.text
    return name.utf8.starts(with: "notifications".utf8)
      && (name.utf8.count == 13 || name.utf8.dropFirst(13).first == UInt8(ascii: "["))
  }

  private static var missing: APIError {
    APIError("There are no notifications: send them as a form with notifications[0], notifications[1] ...")
  }

  private static func tooMany(_ maximum: Int) -> APIError {
    APIError(.contentTooLarge, "There are too many notifications: send at most \(maximum) at a time.")
  }
}

/// Decodes pairs of hexadecimal digits.
enum Hexadecimal {
  /// The bytes of a text in either case; nil if it is malformed.
  static func decode(_ text: String) -> [UInt8]? {
    let digits = text.utf8.compactMap(\.hexadecimalValue)
    guard digits.count == text.utf8.count, digits.count.isMultiple(of: 2) else { return nil }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
  }
}

extension Push {
  /// A push in the form that the app expects. The phone verifies and decrypts both strings, which are passed
  /// on unchanged.
  init(_ notification: NotificationBatch.Signed, at now: Date) {
    let entry = notification.entry
    let token = notification.device.token ?? ""
    let destination = notification.device.destination
    switch destination.kind {
    case .fcm:
      self = .fcm(
        FCMMessage(
          token: token, project: destination.target,
          data: ["subject": entry.subject, "signature": entry.signatureText],
          priority: entry.priority == .high ? .high : .normal,
          timeToLive: entry.kind == .voip ? Int(Self.callLifetime) : nil))
    case .apns, .pushKit:
      self = .apns(
        APNsNotification(
          entry, to: token, topic: destination.target ?? "", isPushKit: destination.kind == .pushKit, at: now)
      )
      environment = notification.device.environment
    }
  }

  /// Seconds after which a call need not ring any more.
  fileprivate static let callLifetime: TimeInterval = 60
  /// Seconds after which the phone will have found out by itself what was read elsewhere.
  fileprivate static let removalLifetime: TimeInterval = 86_400
}

extension APNsNotification {
  fileprivate init(
    _ entry: NotificationEntry, to token: String, topic: String, isPushKit: Bool, at now: Date
  ) {
    // APNs takes tokens in lower case. Talk sends two, the second for calls.
    let tokens = token.lowercased().split(separator: " ").map(String.init)
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
      expiration = now + Push.callLifetime
    case .voip where tokens.count > 1:
      self = make("{}", tokens[1], topic + ".voip", .voip, 10)
      expiration = now + Push.callLifetime
    case .alert, .voip:
      self = make(
        #"{"alert":{"loc-key":"NEW_NOTIFICATION"},"mutable-content":1,"sound":"default"}"#, token, topic,
        .alert, entry.priority == .high ? 10 : 5)
      if entry.kind == .voip { expiration = now + Push.callLifetime }
      collapseID = String(entry.signatureText.prefix(Self.collapseCharacters))
    case .background:
      self = make(#"{"content-available":1}"#, token, topic, .background, 5)
      expiration = now + Push.removalLifetime
      collapseID = String(entry.signatureText.prefix(Self.collapseCharacters))
    }
  }

  /// Characters of the signature used as the collapse id: enough to tell notifications apart, so that one
  /// sent twice shows once and no other is replaced. The proxy cannot read the contents.
  private static let collapseCharacters = 43
}
