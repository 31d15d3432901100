import Foundation
import Providers
import SQL
import Sealing

/// The promises of the built-in chat server.
extension World {
  /// Records a push that a provider accepted for one of the chat's phones.
  func arrivedFromChat(_ arrival: Arrival, at phone: Phone) {
    guard let chatPhone = chat?.phones[phone.number - Chat.firstPhone] else { return }
    guard let label = chatPhone.opened(arrival.push) else { return }
    note("\(phone.name): opens \(label)")
    let parts = label.split(separator: ".")
    guard parts.count == 3, parts[1] == "chat", parts[2] == "u\(phone.user)" else {
      return violate("readable to nobody else", "\(label) goes to \(phone.name)")
    }
    let key = "\(label) \(phone.number)"
    checkOnce(arrival, label, after: ledger.arrivals[key] ?? [])
    ledger.arrivals[key, default: []].append(arrival)
  }

  /// Whether the chat server has a device with this token.
  func chatServerHas(_ token: String) -> Bool {
    let id = TokenID(token: token).storage
    return !server.rows("SELECT id FROM devices WHERE token_id = \(id)").isEmpty
  }

  /// "No living registration ends": the server still has every token that it has confirmed to a phone.
  func checkChatDevices() {
    guard violation == nil, let chat else { return }
    for phone in chat.phones where phone.phone.isWaiting && phone.phone.lies == 0 {
      guard let token = phone.confirmed, token == phone.phone.token, isLive(token), !chatServerHas(token)
      else { continue }
      return violate(
        "no living registration ends",
        "the chat server has said yes to \(phone.phone.name), and forgot its token"
      )
    }
  }

  /// "A registration on its way arrives, or its phone is told why not."
  func checkChatRegistrations() {
    guard violation == nil, let chat else { return }
    let rows = server.rows("SELECT pending_token_id FROM devices WHERE error_code IS NULL")
    let pending = Set(rows.compactMap { try? $0.optionalInt64("pending_token_id") })
    for phone in chat.phones where pending.contains(phone.phone.tokenID.storage) {
      return violate("a registration arrives", "\(phone.phone.name) still waits for the bouncer's answer")
    }
  }

  /// "No device is stranded."
  func checkChatReach(_ message: String) {
    guard violation == nil, let chat else { return }
    for phone in chat.phones where phone.phone.isWaiting {
      let label = Chat.label(message, phone.phone.user)
      guard ledger.arrivals["\(label) \(phone.phone.number)"] == nil else { continue }
      let has = chatServerHas(phone.phone.token) ? "has its token" : "does not have its token"
      return violate(
        "no device is stranded", "\(phone.phone.name) waits for messages of the chat server, which \(has)")
    }
  }

  private var deadChatPhone: Phone? {
    guard chat != nil else { return nil }
    let rows = server.rows("SELECT token_id FROM devices WHERE token_id IS NOT NULL")
    let believed = Set(rows.compactMap { try? $0.int64("token_id") })
    return owners.byToken.sorted { $0.key < $1.key }.first { token, phone in
      (Chat.firstPhone..<NextcloudChat.firstPhone).contains(phone.number) && !isLive(token)
        && believed.contains(TokenID(token: token).storage)
    }?.value
  }

  var hasDeadChatDevices: Bool { deadChatPhone != nil }

  /// "A dead registration ends."
  func checkChatDeaths() {
    guard violation == nil, let phone = deadChatPhone else { return }
    violate(
      "a dead registration ends", "\(phone.name)'s token is dead, and the chat server was never told")
  }

  /// "What nobody may read is readable to nobody": the keys of phones.
  func checkChatSecrets(in image: Data) {
    guard violation == nil, let chat else { return }
    for phone in chat.phones {
      for key in phone.keys.values where key.withBytes({ image.range(of: Data($0.dropFirst())) }) != nil {
        return violate("nothing secret in the database", "a key of \(phone.phone.name) stands there in clear")
      }
    }
  }
}
