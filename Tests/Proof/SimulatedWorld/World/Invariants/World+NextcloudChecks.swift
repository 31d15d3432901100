import Crypto
import Foundation
import HTTP
import Providers
import SQL
import Sealing

/// The promises of the push proxy.
extension World {
  /// Records a push that a provider accepted for one of Nextcloud's phones.
  func arrivedFromNextcloud(_ arrival: Arrival, at phone: Phone) {
    let label = arrival.push.label
    if nextcloud?.hasSigned(arrival.push, for: phone.user) != true {
      return violate("signed by whom it is from", "\(label) goes to \(phone.name)")
    }
    guard label.split(separator: ".").dropFirst().first == "n\(phone.number)" else {
      return violate("readable to nobody else", "\(label) goes to \(phone.name)")
    }
    checkOnce(arrival, label, after: ledger.arrivals[label] ?? [])
    ledger.arrivals[label, default: []].append(arrival)
  }

  /// "No living registration ends": the proxy has the row of each phone that it has said yes to, with its token.
  func checkNextcloudRows() {
    guard violation == nil, let nextcloud else { return }
    var tokens: [[UInt8]: [[UInt8]]] = [:]
    for row in server.rows("SELECT device_identifier, token_sha512 FROM registrations WHERE wire = 3") {
      guard let identifier = try? row.bytes("device_identifier"), let hash = try? row.bytes("token_sha512")
      else { continue }
      tokens[identifier, default: []].append(hash)
    }
    for phone in nextcloud.phones where phone.phone.isWaiting && phone.phone.lies == 0 {
      guard let confirmed = phone.confirmed, confirmed.token == phone.phone.token,
        isLive(confirmed.token)
      else { continue }
      let hash = Array(SHA512.hash(data: Data(confirmed.token.utf8)))
      guard tokens[confirmed.identifier]?.contains(hash) != true else { continue }
      return violate(
        "no living registration ends",
        "the proxy has said yes to \(phone.phone.name), and has no row with its token")
    }
  }

  /// "What was promised arrives or has an end that is told": of each request, all notifications that were not
  /// reported as failed.
  func checkNextcloudPromises() {
    guard violation == nil, let nextcloud, !ledger.isLoud else { return }
    for request in nextcloud.told {
      let missing = request.entries.filter { label, row in
        ledger.arrivals[label] == nil && isLive(row.token) && request.time > row.phone.phone.forgottenAt
          && !ledger.isOver(row.token, promisedAt: request.time)
      }
      let losses = Set(missing.map(\.row.token)).reduce(ledger.backlogged) {
        $0 + ledger.losses(of: $1)
      }
      if missing.count > request.failed + losses {
        noteOutbox()
        return violate(
          "what is promised arrives",
          "\(missing.map(\.label)): \(request.failed) were called failed, and nobody was told of the others")
      }
    }
  }

  /// "No device is stranded."
  func checkNextcloudReach(_ message: String) {
    guard violation == nil, let nextcloud else { return }
    for phone in nextcloud.phones where phone.phone.isWaiting {
      let row = NextcloudServer.Row(
        phone: phone, identifier: phone.identifier, token: phone.phone.token)
      guard ledger.arrivals[NextcloudServer.label(message, row)] == nil else { continue }
      let isKnown = nextcloud.rows[Base64.encode(phone.identifier)] != nil
      return violate(
        "no device is stranded",
        "\(phone.phone.name) waits for messages of nextcloud, which \(isKnown ? "knows" : "has forgotten") it"
      )
    }
  }

  /// A registration of the server's whose phone no longer exists. Leaves out users' keys that the proxy has
  /// never seen: it cannot verify their signatures. So it is with an identifier that an impostor has registered, too: the
  /// server is never told that its device is gone.
  private var deadNextcloudRow: NextcloudServer.Row? {
    nextcloud?.rows.sorted { $0.key < $1.key }.map(\.value).first { row in
      nextcloud?.generations[row.phone.phone.user] == nil && !isLive(row.token)
        && impostor?.identifiers.contains(Base64.encode(row.identifier)) != true
    }
  }

  var hasDeadNextcloudRows: Bool { deadNextcloudRow != nil }

  /// "A dead registration ends."
  func checkNextcloudDeaths() {
    guard violation == nil, let row = deadNextcloudRow else { return }
    violate(
      "a dead registration ends", "\(row.phone.phone.name)'s token is dead, and nextcloud was never told")
  }
}
