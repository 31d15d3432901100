import Crypto
import Foundation
import HTTP
import Providers
import SQL
import Sealing

/// The promises of the built-in Nextcloud server.
extension World {
  /// Records a push that a provider accepted for one of its phones.
  func arrivedFromNextcloudChat(_ arrival: Arrival, at owner: Phone) {
    guard let chat = nextcloudChat else { return }
    let phone = chat.phones[owner.number - NextcloudChat.firstPhone]
    guard let (label, login) = chat.opened(arrival.push, at: phone) else {
      return violate("readable to whom it is for", "\(owner.name) cannot open a push")
    }
    let isOfFormerLogin = login != phone.login
    note(
      "\(owner.name): opens \(label)\(isOfFormerLogin ? " for a former login" : "") (\(arrival.life.node))")
    guard chat.hasSigned(arrival.push, for: owner.user) else {
      return violate("signed by whom it is from", "\(label) goes to \(owner.name)")
    }
    guard label.hasSuffix(".cloud.u\(owner.user)") else {
      return violate("readable to nobody else", "\(label) goes to \(owner.name)")
    }
    if chat.takenBack.values.contains(where: { $0.label == label && $0.reader == login }) {
      return violate("who has read it is not told", "\(label) goes to \(owner.name)")
    }
    let key = "\(label) \(owner.number)"
    let formers = ledger.arrivals[key] ?? []
    let written = ledger.messages[String(label.prefix { $0 != "." }), default: 0]
    if formers.contains(where: { $0.push.subject != arrival.push.subject }), !isOfFormerLogin {
      return violate("nothing arrives twice", "\(label) was made twice for \(owner.name)")
    }
    let last = formers.filter { !chat.wire.mayRepeat($0.push.subject, writtenAt: written) }
    if formers.isEmpty || !last.isEmpty { checkOnce(arrival, label, after: last) }
    ledger.arrivals[key, default: []].append(arrival)
  }

  /// The server's registrations of a user, or of all: device identifiers and hashes of tokens.
  func nextcloudServerRows(of user: Int? = nil) -> [(identifier: String, tokenHash: String)] {
    let condition =
      user.map { "WHERE user_id = (SELECT id FROM users WHERE email = '\(Chat.email(of: $0))')" } ?? ""
    let rows = server.rows(
      "SELECT device_identifier, push_token_hash FROM nextcloud_registrations \(condition) ORDER BY id")
    return rows.compactMap { row in
      guard let identifier = try? row.text("device_identifier"), let hash = try? row.text("push_token_hash")
      else { return nil }
      return (identifier, hash)
    }
  }

  private func hash(_ token: String) -> String {
    SHA512.hash(data: Data(token.utf8)).map { String(format: "%02x", $0) }.joined()
  }

  /// "No living registration ends", and "pauses have bounds".
  func checkNextcloudServer() {
    guard violation == nil, let chat = nextcloudChat else { return }
    let rows = nextcloudServerRows()
    for phone in chat.phones where phone.phone.isWaiting && phone.phone.lies == 0 {
      guard let confirmed = phone.confirmed, confirmed.token == phone.phone.token, isLive(confirmed.token)
      else { continue }
      let row = (identifier: Base64.encode(confirmed.identifier), tokenHash: hash(confirmed.token))
      guard !rows.contains(where: { $0 == row }), !chat.hasMetItsMessage(phone) else { continue }
      return violate(
        "no living registration ends",
        "the Nextcloud server has said yes to \(phone.phone.name), and has no row with its token")
    }
    let due = try? server.rows("SELECT MAX(due_at) AS due_at FROM nextcloud_pushes").first?.optionalInt64(
      "due_at")
    guard let due else { return }
    let seconds = Double(due) / 1000 - Self.epoch
    let now = max(time, latestTime, nodes.map { time + $0.life.ahead() }.max() ?? 0)
    if seconds > now + Self.longestNextcloudPause {
      violate("pauses have bounds", "a push waits for \(Int(seconds - time)) s more, which nobody asked for")
    }
  }

  /// The longest pause before a push is sent to its proxy again, in seconds, and a little more.
  private static let longestNextcloudPause = 330.0

  /// "What is promised arrives": of each message, all pushes that were not called failed, then or later.
  func checkNextcloudServerPromises() {
    guard violation == nil, let chat = nextcloudChat, !ledger.isLoud else { return }
    for told in chat.told {
      let missing = told.phones.filter { phone, registration in
        ledger.arrivals["\(told.label) \(phone.phone.number)"] == nil && isLive(registration.token)
          && told.time > phone.phone.forgottenAt && phone.phone.lies == 0
          && !ledger.isOver(registration.token, promisedAt: told.time)
      }
      let losses = missing.reduce(ledger.backlogged + chat.lost) {
        $0 + ledger.losses(of: $1.registration.token)
      }
      guard missing.count > told.failed + losses, let phone = missing.first?.phone.phone else { continue }
      noteOutbox()
      return violate(
        "what is promised arrives",
        "\(told.label) was promised to \(phone.name); it has not arrived, and nobody was told")
    }
  }

  /// "No device is stranded."
  func checkNextcloudServerReach(_ message: String) {
    guard violation == nil, let chat = nextcloudChat else { return }
    for phone in chat.phones where phone.phone.isWaiting {
      let label = NextcloudChat.label(message, phone.phone.user)
      guard ledger.arrivals["\(label) \(phone.phone.number)"] == nil else { continue }
      let has = nextcloudServerRows().contains { $0.tokenHash == hash(phone.phone.token) }
      return violate(
        "no device is stranded",
        "\(phone.phone.name) waits for messages of the Nextcloud server, which \(has ? "has" : "does not have") its token"
      )
    }
  }

  private var deadNextcloudServerPhone: Phone? {
    guard nextcloudChat != nil else { return nil }
    let known = Set(nextcloudServerRows().map(\.tokenHash))
    return owners.byToken.sorted { $0.key < $1.key }.first { token, phone in
      (NextcloudChat.firstPhone..<Gateway.firstPhone).contains(phone.number) && !isLive(token)
        && known.contains(hash(token))
    }?.value
  }

  var hasDeadNextcloudServerRows: Bool { deadNextcloudServerPhone != nil }

  /// "A dead registration ends."
  func checkNextcloudServerDeaths() {
    guard violation == nil, let phone = deadNextcloudServerPhone else { return }
    violate(
      "a dead registration ends", "\(phone.name)'s token is dead, and the Nextcloud server still has it")
  }

  /// "What nobody may read is readable to nobody": app passwords and the users' keys.
  func checkNextcloudServerSecrets(in image: Data) {
    guard violation == nil, let chat = nextcloudChat else { return }
    for secret in chat.passwords + ["PRIVATE KEY"] where image.range(of: Data(secret.utf8)) != nil {
      return violate(
        "nothing secret in the database", "an app password or a user's key stands there in clear")
    }
  }
}

extension NextcloudChat {
  /// Whether a message may have reached the proxy while a phone had registered with the server, but not yet with the
  /// proxy, which then calls it unknown. The phone registers again when it is next opened.
  fileprivate func hasMetItsMessage(_ phone: NextcloudPhone) -> Bool {
    removals.contains { (phone.confirmedAt - 30..<phone.confirmedAt + 60).contains($0) }
  }
}
