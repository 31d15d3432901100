import Foundation
import Providers
import SQL
import Sealing

extension World {
  /// What holds at every moment.
  func check() {
    checkRegistrations()
    checkNextcloudRows()
    checkChatDevices()
    checkNextcloudServer()
    checkGatewayRows()
    checkLeftovers()
    checkPauses()
    checkLegacyRows()
  }

  /// "What is over is removed": two days after its expiry, plus some hours in which everything may have been
  /// out of order.
  private func checkLeftovers() {
    guard violation == nil, time > 2 * 86_400 else { return }
    let limit = Int64((Self.epoch + time - 2 * 86_400 - 6 * 3600) * 1000)
    let rows = server.rows("SELECT COUNT(*) AS count FROM registrations WHERE ended_at < \(limit)")
    if let count = try? rows.first?.int64("count"), count > 0 {
      violate("what is over is removed", "\(count) registrations expired more than two days ago")
    }
  }

  func isLive(_ token: String) -> Bool {
    guard let phone = owners[token] else { return false }
    return switch providers[phone.kind]?.tokens[token] {
    case .live?, .revived?: true
    default: false
    }
  }

  /// "No living registration ends."
  private func checkRegistrations() {
    guard violation == nil else { return }
    var rows: [String: Bool] = [:]
    for row in server.rows(
      """
      SELECT r.uuid, e.token_id, e.ended_at FROM registrations e
      JOIN remote_realms r ON r.id = e.realm_id WHERE e.token_id IS NOT NULL
      """)
    {
      guard let realm = try? row.text("uuid"), let id = try? row.int64("token_id") else { continue }
      rows["\(realm) \(id)"] = (try? row.optionalInt64("ended_at")) == .some(nil)
    }
    for phone in phones where isLive(phone.token) {
      guard phone.server.devices[phone.number] == .registered(token: phone.token) else { continue }
      guard rows["\(phone.server.realm) \(phone.tokenID.storage)"] != true else { continue }
      guard phone.lies > 0 else {
        return violate("no living registration ends", "\(phone.name) lives, and its registration does not")
      }
      wasBelieved(phone.token, of: phone)
    }
  }

  /// Records that the service accepted a false report of a dead token: it ended the registration, or told the
  /// server that the token is dead.
  func wasBelieved(_ token: String, of phone: Phone) {
    let provider = phone.judge
    guard ledger.believed[token].map({ time - $0 > Self.badHour }) ?? true else { return }
    ledger.believed[token] = time
    // The guard counts by chat server.
    let count = ledger.believed.count { token, at in
      guard let other = self.owners[token], other.server === phone.server else { return false }
      return other.judge == provider && time - at < Self.badHour
    }
    if count > Self.mostBelieved * lives {
      violate(
        "no living registration ends",
        "\(provider) was believed \(count) times of server \(phone.server.number) in a bad hour, of \(phones.count) phones"
      )
    }
  }

  /// The period over which the guard counts dead tokens, in seconds.
  private static let badHour = 600.0

  /// The number of dead tokens of a chat server that a node may accept in that period.
  private static let mostBelieved = 25

  /// "What was promised arrives or has an end that is told."
  func checkPromises() {
    guard violation == nil, !ledger.isLoud else { return }
    var missing: [String: [Ledger.Promise]] = [:]
    for promise in ledger.promises {
      let phone = promise.phone
      guard isLive(promise.token), !phone.isHandedOver, promise.time > phone.forgottenAt,
        !ledger.isOver(promise.token, promisedAt: promise.time),
        !isOverWith(phone, promisedAt: promise.time),
        ledger.arrivals["\(promise.label) \(phone.number)"] == nil,
        tenancy?.isUnserved(phone, from: promise.time, to: promise.answeredAt) != true
      else { continue }
      missing[promise.token.canonicalToken, default: []].append(promise)
    }
    for (token, promises) in missing.sorted(by: { $0.key < $1.key }) {
      let told =
        ledger.losses(of: token) + ledger.backlogged + toldWith(token)
      if promises.count > told, let promise = promises.first {
        noteOutbox()
        return violate(
          "what is promised arrives",
          """
          \(promise.label) was promised to \(promise.phone.name) \(Int(time - promise.time)) s ago; it has not arrived, and \
          nobody was told
          """)
      }
    }
  }

  /// Adds the outbox's entries to the world's log, to explain a loss.
  func noteOutbox() {
    let rows = server.rows("SELECT due_at, attempts, created_at FROM outbox ORDER BY id LIMIT 20")
    func seconds(_ milliseconds: Int64) -> Int { Int(Double(milliseconds) / 1000 - Self.epoch) }
    for row in rows {
      guard let due = try? row.int64("due_at"), let tries = try? row.int64("attempts"),
        let since = try? row.int64("created_at")
      else {
        continue
      }
      note("waits since \(seconds(since)) s, until \(seconds(due)) s, after \(tries) tries")
    }
  }

  /// "No device is stranded."
  func checkReach(_ label: String) {
    guard violation == nil else { return }
    for phone in phones
    where phone.isWaiting && !phone.isHandedOver && ledger.arrivals["\(label) \(phone.number)"] == nil {
      if !phone.isLegacy, case .pending? = phone.server.devices[phone.number],
        !phone.server.stuck.contains(phone.number)
      {
        continue
      }
      violate(
        "no device is stranded",
        "\(phone.name) waits for messages, and gets none (\(phone.server.name) has it as \(phone.server.state(of: phone)))"
      )
      return
    }
  }

  /// Whether a server still has a token that is dead.
  var hasDeadOnes: Bool {
    phones.contains { !$0.isHandedOver && $0.server.deadToken(of: $0, isLive: isLive) != nil }
  }

  /// "A dead registration ends."
  func checkDeaths() {
    guard violation == nil else { return }
    for phone in phones where !phone.isHandedOver {
      guard let token = phone.server.deadToken(of: phone, isLive: isLive) else { continue }
      _ = token
      violate(
        "a dead registration ends", "\(phone.name)'s token is dead, and \(phone.server.name) was never told")
    }
  }

  /// "What nobody may read is readable to nobody."
  func checkSecrets() {
    guard violation == nil else { return }
    let image = Data(server.image())
    let secrets: [(String, Data)] =
      [
        ("a token's bytes", Data([0x5E, 0xC2, 0xE7, 0x5E, 0xC2, 0xE7])),
        ("a text", Data(Self.plaintext.utf8)), ("the storage key", Data(Node.storageKey)),
      ] + Self.secretSpellings.map { ("a token", Data($0.utf8)) }
    for (name, bytes) in secrets where image.range(of: bytes) != nil {
      violate("nothing secret in the database", "\(name) stands in the database in clear")
    }
    for server in servers where image.range(of: Data(server.key.utf8)) != nil {
      violate("nothing secret in the database", "a server's key stands in the database in clear")
    }
    checkChatSecrets(in: image)
    checkNextcloudServerSecrets(in: image)
    checkGatewaySecrets(in: image)
  }
}

extension ChatServer {
  func state(of phone: Phone) -> String {
    if phone.isLegacy { return legacy[phone.number] == nil ? "unknown" : "registered" }
    return switch devices[phone.number] {
    case nil: "unknown"
    case .pending: "pending"
    case .registered(let token): token == phone.token ? "registered" : "registered with an older token"
    case .failed: "refused"
    }
  }

  /// The token that the server has for a phone although it is dead.
  func deadToken(of phone: Phone, isLive: (String) -> Bool) -> String? {
    if case .registered(let token)? = devices[phone.number], !isLive(token) { return token }
    if let token = legacy[phone.number], !isLive(token) { return token }
    return nil
  }
}
