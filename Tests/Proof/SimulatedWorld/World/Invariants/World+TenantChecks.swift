import Foundation
import Providers
import Registrations
import SQL
import Sealing

/// The promises to each of several tenants.
extension World {
  /// The account that a notification names among those of one app.
  func account(of label: [Substring], on phone: Phone) -> Phone {
    guard label.count == 3 else { return phone }
    return phone.device.accounts.first {
      label[1] == "s\($0.server.number)" && (label[2] == "p\($0.number)" || label[2] == "u\($0.user)")
    } ?? phone
  }

  /// "No living registration ends": the bouncer has each legacy registration that it has said yes to, unless the
  /// device has an encrypted one in the same realm.
  func checkLegacyRows() {
    guard violation == nil, plan.tenants != nil else { return }
    var rows: Set<[String]> = []
    for row in server.rows(
      "SELECT server_id, user_id, user_uuid, token_hash FROM registrations WHERE wire = 2")
    {
      guard let server = try? row.int64("server_id"), let hash = try? row.int64("token_hash") else {
        continue
      }
      if let user = try? row.optionalInt64("user_id") { rows.insert(["\(server)", "\(user)", "\(hash)"]) }
      if let user = try? row.optionalText("user_uuid") { rows.insert(["\(server)", user, "\(hash)"]) }
    }
    for row in server.rows(
      """
      SELECT r.uuid, e.token_hash FROM registrations e JOIN remote_realms r ON r.id = e.realm_id
      WHERE e.wire = 1 AND e.ended_at IS NULL
      """)
    {
      if let realm = try? row.text("uuid"), let hash = try? row.int64("token_hash") {
        rows.insert([realm, "\(hash)"])
      }
    }
    let key = StorageKey(bytes: Node.storageKey)
    for phone in phones where phone.lies == 0 && !phone.server.isMoving {
      let server = phone.server
      let token = phone.token
      guard server.certain.presentSince(phone, token) != nil, isLive(token),
        let hash = try? key.tokenHash(of: PushToken(token, kind: phone.kind == .apns ? .apns : .fcm))
      else { continue }
      let names = ["\(server.userID(phone.user))", server.userUUID(phone.user)]
      guard !names.contains(where: { rows.contains(["\(server.id)", $0, "\(hash)"]) }),
        !rows.contains([server.realm, "\(hash)"])
      else { continue }
      return violate(
        "no living registration ends", "\(phone.name), an old app, lives, and its registration does not")
    }
  }

  /// "Who has left is told nothing": an old app whose removal was confirmed gets no message that was written later.
  func checkLeft(_ phone: Phone, _ message: String) {
    guard let left = phone.server.certain.removedAt(phone, phone.token),
      let written = ledger.messages[message],
      written > left
    else { return }
    violate("who has left is told nothing", "\(message) arrives at \(phone.name)")
  }

  /// "Each app has its own topic": a push names the app of its token, and is signed with a key that serves it.
  func checkApp(_ push: ReceivedPush, _ provider: Route.Provider, from life: Life) {
    guard let tenancy, let phone = owners[push.token], phone.number < NextcloudServer.firstPhone else {
      return
    }
    tenancy.checkCredential(push, provider, from: life)
    checkDeadEverywhere(push, to: phone)
    // Whoever registers a token says of which app it is.
    guard provider == .apns, push.topic != phone.topic, push.label != Impostor.label else { return }
    violate(
      "each app has its own topic", "\(push.label) goes to \(phone.name) under \(push.topic ?? "none")")
  }

  /// "A dead token is dead everywhere": once a registration has ended because its token is dead, nobody's notifications
  /// are sent to it, unless it was registered since.
  private func checkDeadEverywhere(_ push: ReceivedPush, to phone: Phone) {
    // Whoever registers a token as another app's has another registration. What was registered while a clock was ahead
    // is younger than its token's death.
    guard ledger.clockTroubleAt < 0, push.label != Impostor.label, phone.lies == 0, !isLive(push.token),
      let ended = ledger.ended[Ledger.fingerprint(of: push.token)], time > ended + 5,
      !ledger.mayBeRegistered(push.token, at: ended)
    else { return }
    violate(
      "a dead token is dead everywhere", "\(push.label) goes to a token of \(phone.name) that ended long ago")
  }

  /// Reads a request to a push service. "Readable to whom it is for": its phone opens it with its own keys; and the push
  /// service is shown a signature that was made for it with our key.
  func taken(_ request: PushService.Request) -> ReceivedPush {
    let request = standIn.request(request, self)
    let push = pushService.received(request)
    if push.label.isEmpty {
      violate("readable to whom it is for", "\(owners[push.token]?.name ?? "nobody") cannot open a message")
    }
    if !pushService.isSigned(request) {
      violate("each push service gets its own signature", "a request is not signed for it with our key")
    }
    return push
  }
}

extension ChatServer {
  /// "No living registration ends": the bouncer calls an old app's token gone.
  func checkGone(_ phone: Phone, _ token: String, asked began: Double) {
    guard world.plan.tenants != nil, !isMoving, phone.isLegacy, phone.lies == 0, world.isLive(token),
      let since = certain.presentSince(phone, token), max(since, renamedAt) < began
    else { return }
    world.violate("no living registration ends", "\(phone.name), an old app, lives, and is called gone")
  }
}
