import Crypto
import Foundation
import HTTP
import HTTPTypes
import Sealing

/// A stock Nextcloud server with its users: it sends all notifications of a message in one request, never
/// retries, and removes each device at once that the proxy reports as unknown.
///
/// Unchecked: the world has one thread.
final class NextcloudServer: NextcloudHost, @unchecked Sendable {
  /// A phone's registration at the server.
  struct Row {
    let phone: NextcloudPhone
    let identifier: [UInt8]
    let token: String
  }

  /// A request that was answered 200.
  struct Told {
    /// When the request was made. A device that was removed since may or may not receive its notification.
    let time: Double
    /// The notifications whose devices the proxy did not report as unknown, with their labels.
    let entries: [(label: String, row: Row)]
    /// The number of them that the proxy reported as failed.
    let failed: Int
  }

  /// Made once for all worlds: RSA keys take long.
  static let keys = (0..<3).map { _ in RSAPrivateKey.generate() }

  unowned let world: World
  private(set) var phones: [NextcloudPhone] = []
  /// By device identifier in base64.
  private(set) var rows: [String: Row] = [:]
  private(set) var told: [Told] = []
  /// How often it has made new keys for a user.
  private(set) var generations: [Int: Int] = [:]
  private var logins = 0
  private var random: WorldRandom

  init(_ plans: [Plan.NextcloudPhonePlan], world: World, seed: UInt64) {
    self.world = world
    random = WorldRandom(seed: seed, "nextcloud server")
    phones = plans.enumerated().map { number, plan in
      let phone = Phone(
        NextcloudServer.firstPhone + number, plan.kind, server: world.servers[0], user: plan.user,
        isLegacy: false, world: world)
      return NextcloudPhone(phone, host: self)
    }
  }

  /// The number of the first phone.
  static let firstPhone = 10_000

  func nextNode() -> Node { world.balanced(&random) }

  func nextLogin() -> Int {
    logins += 1
    return logins
  }

  private func key(of user: Int) -> RSAPrivateKey {
    Self.keys[(user + generations[user, default: 0]) % Self.keys.count]
  }

  /// Whether a push is signed with one of a user's keys, present or former, as phones check it.
  func hasSigned(_ push: ReceivedPush, for user: Int) -> Bool {
    guard let subject = push.subject, let signature = push.signature else { return false }
    return (0...generations[user, default: 0]).contains { generation in
      Self.keys[(user + generation) % Self.keys.count].publicKey.verifies(signature, of: subject)
    }
  }

  /// Replaces a user's keys, as after a restore without them. Phones learn the new ones when they register
  /// again.
  func makeKey(of user: Int) { generations[user, default: 0] += 1 }

  func register(_ phone: NextcloudPhone) -> SignedDevice? {
    rows[Base64.encode(phone.identifier)] = Row(
      phone: phone, identifier: phone.identifier, token: phone.phone.token)
    return signed(phone)
  }

  func forget(_ phone: NextcloudPhone) -> SignedDevice? {
    rows[Base64.encode(phone.identifier)] = nil
    return signed(phone)
  }

  private func signed(_ phone: NextcloudPhone) -> SignedDevice {
    let key = key(of: phone.phone.user)
    return SignedDevice(
      identifier: Base64.encode(phone.identifier), signature: Base64.encode(key.sign(phone.preimage)),
      userKey: key.publicKey.pem)
  }

  /// The label of a notification: its message, phone and device identifier.
  static func label(_ message: String, _ row: Row) -> String {
    let id = row.identifier.prefix(4).map { String(format: "%02x", $0) }.joined()
    return "\(message).n\(row.phone.phone.number).\(id)"
  }

  /// Sends a message to these users; nil: to all users.
  func notify(_ message: String, users: [Int]?) async {
    let meant = rows.sorted { $0.key < $1.key }.map(\.value)
      .filter { users?.contains($0.phone.phone.user) ?? true }
    guard !meant.isEmpty else { return }
    let entries = meant.map { (label: Self.label(message, $0), row: $0) }
    let fields = entries.enumerated().map { number, entry in
      ("notifications[\(number)]", json(entry.label, entry.row))
    }
    let began = world.time
    let (node, answer) = await call(.post, "notifications", fields)
    let names = meant.map(\.phone.phone.name).joined(separator: ", ")
    world.note(
      "nextcloud: \(message) to \(names): \(answer.map { "\($0.status) \($0.text.prefix { $0 != "\n" })" } ?? "no answer") (\(node.name))"
    )
    guard let answer, answer.status < 500 else { return }
    let unknown = Set(answer.json["unknown"]?.strings ?? [])
    let kept = entries.filter { !unknown.contains(Base64.encode($0.row.identifier)) }
    for entry in entries {
      let id = Base64.encode(entry.row.identifier)
      if unknown.contains(id) { rows[id] = nil }
    }
    let failed = answer.json["failed"].flatMap { Int($0.text) } ?? entries.count
    told.append(Told(time: began, entries: kept, failed: failed - (entries.count - kept.count)))
  }

  private func json(_ label: String, _ row: Row) -> String {
    // Stands for the text that only the phone can decrypt, padded to the length of a ciphertext.
    var subject = Array("\(World.plaintext)\(label)\"".utf8)
    subject += Array(repeating: 0x20, count: 256 - subject.count)
    let hash = SHA512.hash(data: Data(row.token.utf8)).map { String(format: "%02x", $0) }.joined()
    let signature = key(of: row.phone.phone.user).sign(subject)
    return """
      {"deviceIdentifier":"\(Base64.encode(row.identifier))","pushTokenHash":"\(hash)",\
      "subject":"\(Base64.encode(subject))","signature":"\(Base64.encode(signature))","priority":"high","type":"alert"}
      """
  }
}

extension ReceivedPush {
  /// The label in a notification of Nextcloud's, whose body is encoded once more.
  static func nextcloudLabel(_ body: String) -> String? {
    guard let subject = body.between(#""subject":""#, "\""),
      let bytes = Data(base64Encoded: subject.replacing(#"\/"#, with: "/"))
    else { return nil }
    return String(decoding: bytes, as: UTF8.self).between(World.plaintext, "\"")
  }
}
