import Foundation
import HTTP
import Providers

/// Legacy apps, whose notifications are not encrypted, and their transition to encrypted ones.
extension ChatServer {
  func registerLegacy(_ phone: Phone) async {
    guard legacy[phone.number] != phone.token else { return }
    let token = phone.token
    var fields = identity(of: phone.user) + tokenFields(of: phone, token)
    if phone.kind == .apns {
      fields.append(("ios_app_id", phone.isOfStore ? UpstreamBouncer.topic : phone.topic))
    }
    let start = world.time
    let began = certain.registers(phone, token, namesUUID: knowsUUIDs)
    let (node, answer) = await call("push/register", type: Self.form, form(fields))
    world.ledger.registers(token, at: world.time)
    let isRemoved = removalsOfAll[phone.user].map { $0.open > 0 || $0.until >= start } ?? false
    certain.hasRegistered(began, isRemoved ? nil : answer, node, at: world.time)
    world.note(
      "\(name): registers \(phone.name), an old app: \(answer.map { "\($0.status)" } ?? "no answer")")
    if answer?.status == 200, phone.isLegacy, phone.isLoggedIn { legacy[phone.number] = token }
  }

  /// Removes a legacy registration after a logout or a transition to an encrypted app. Tries once, and
  /// ignores failures.
  func unregisterLegacy(_ phone: Phone) async {
    guard let token = legacy.removeValue(forKey: phone.number) else { return }
    // Removing a registration also removes the notifications that wait for it.
    phone.forgottenAt = world.time
    let began = certain.removes(phone, token)
    let (node, answer) = await call(
      "push/unregister", type: Self.form, form(identity(of: phone.user) + tokenFields(of: phone, token)))
    certain.hasRemoved(began, answer, node, at: world.time)
    world.note(
      "\(name): unregisters \(phone.name), an old app: \(answer.map { "\($0.status)" } ?? "no answer")")
  }

  /// Removes the legacy registration of a phone whose encrypted registration has succeeded.
  func phoneIsEncrypted(_ phone: Phone) async {
    if !isOld { await unregisterLegacy(phone) }
  }

  /// Notifies all legacy apps of a user, if the server knows at least one of them.
  func notifyLegacy(_ label: String, _ user: Int) async {
    let phones = world.phones.filter {
      $0.server === self && $0.user == user && legacy[$0.number] != nil
    }
    guard !phones.isEmpty else { return }
    func tokens(_ kind: Route.Provider) -> String {
      phones.filter { ($0.kind == .apns) == (kind == .apns) }.map { "\"\(legacy[$0.number] ?? "")\"" }.joined(
        separator: ",")
    }
    let text = "\(World.plaintext)\(label).s\(number).u\(user)"
    let body = """
      {\(names(of: user)),\
      "gcm_payload":{"event":"message","content":"\(text)"},"gcm_options":{"priority":"high"},\
      "apns_payload":{"alert":"\(text)","custom":{"zulip":{"message_ids":[1]}}},\
      "android_devices":[\(tokens(.fcm))],"apple_devices":[\(tokens(.apns))]}
      """
    let asked = phones.map { (phone: $0, token: legacy[$0.number] ?? "") }
    let began = world.time
    let (node, answer) = await call("push/notify", type: "application/json", body)
    world.note(
      "\(name): \(label) to old apps of user \(user): \(answer.map { "\($0.status)" } ?? "no answer") (\(node.name))"
    )
    guard let answer, answer.status == 200 else { return }
    let deleted = answer.json["deleted_devices"]
    let gone = Set(
      (deleted?["android_devices"]?.strings ?? []) + (deleted?["apple_devices"]?.strings ?? []))
    for (phone, token) in asked {
      if gone.contains(token) {
        world.note("\(name): forgets \(phone.name), an old app, which the bouncer calls gone")
        checkGone(phone, token, asked: began)
        certain.isTold(phone, token)
        if legacy[phone.number] == token { legacy[phone.number] = nil }
      } else if phone.isLegacy {
        world.promised(label, to: token, of: phone, at: began)
      }
    }
  }

  /// Reports its realms, which it has told the upstream bouncer long ago, or tells now.
  func report() async {
    let realms = """
      [{"id":2,"uuid":"\(realm)","uuid_owner_secret":"\(ownerSecret)","host":"chat\(number).example.org",\
      "url":"https://chat\(number).example.org","name":"Example","org_type":10,"date_created":1600000000,\
      "deactivated":false}]
      """
    let (_, answer) = await call(
      "server/analytics", type: Self.form,
      form([("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", realms)]))
    world.note("\(name): reports its realms: \(answer.map { "\($0.status)" } ?? "no answer")")
  }

  static let form = "application/x-www-form-urlencoded"

  func identity(of user: Int) -> [(String, String)] {
    [("user_id", "\(userID(user))")]
      + (knowsUUIDs ? [("user_uuid", userUUID(user)), ("realm_uuid", realm)] : [])
  }

  /// The same in JSON.
  private func names(of user: Int) -> String {
    #""user_id":\#(userID(user))"#
      + (knowsUUIDs ? #","user_uuid":"\#(userUUID(user))","realm_uuid":"\#(realm)""# : "")
  }

  private func tokenFields(of phone: Phone, _ token: String) -> [(String, String)] {
    [("server_uuid", uuid), ("token", token), ("token_kind", phone.kind == .apns ? "1" : "2")]
  }
}
