import Foundation
import HTTP
import HTTPClient
import Providers
import Sealing

/// What the upstream bouncer does with devices.
extension UpstreamBouncer {
  // MARK: Encrypted ones

  func register(_ fields: [String: String], _ call: Call) -> ProviderResponse {
    guard let realm = realm(fields["realm_uuid"], call) else {
      return .refusal("Organization not registered", "MISSING_REMOTE_REALM", 403)
    }
    guard fields["bouncer_public_key"] == Self.keyPair.publicKeyBase64 else {
      return .refusal("Invalid bouncer_public_key", "INVALID_BOUNCER_PUBLIC_KEY")
    }
    guard let sealed = fields["encrypted_push_registration"].flatMap({ Data(base64Encoded: $0) }),
      let opened = Self.keyPair.open([UInt8](sealed)),
      let token = (try? JSON.parse(opened))?["token"]?.string, let id = fields["token_id"],
      id == TokenID(token: token).base64
    else { return .refusal("Invalid encrypted_push_registration") }
    devices[realm, default: [:]][id] = Device(token: token)
    return .success
  }

  func notify(_ json: JSON, _ call: inout Call) -> ProviderResponse {
    guard let realm = realm(json["realm_uuid"]?.string, call) else {
      return .refusal("Organization not registered", "MISSING_REMOTE_REALM", 403)
    }
    var (gone, asked, counts): ([String], Set<String>, [Route.Provider: Int]) = ([], [], [:])
    for item in json["push_requests"]?.elements ?? [] {
      guard let id = item["token_id"]?.string else { return .refusal("Invalid token_id") }
      asked.insert(id)
      let device = devices[realm]?[id]
      let label = item["payload"]?["encrypted_data"]?.string?.replacing(World.plaintext, with: "") ?? ""
      if call.trouble == .lyingDead {
        if let token = device?.token, world.isLive(token) { world.owners[token]?.lies += 1 }
        gone.append(id)
      } else if let device, !device.isExpired,
        let phone = send(label, to: device.token, isLegacy: false, &call)
      {
        counts[phone.kind, default: 0] += 1
      } else {
        devices[realm]?[id]?.isExpired = true
        gone.append(id)
      }
    }
    if call.trouble == .namingOthers {
      gone += world.phones.map(\.tokenID.base64).filter { !asked.contains($0) }
      counts[.apns, default: 0] += 7
    }
    return .vendor(
      200,
      """
      {"result":"success","msg":"","apple_successfully_sent_count":\(counts[.apns] ?? 0),\
      "android_successfully_sent_count":\(counts[.fcm] ?? 0),"delete_token_ids":\(Self.list(gone)),\
      "realm_push_status":{"can_push":true,"expected_end_timestamp":null}}
      """)
  }

  // MARK: Old apps

  func registerOldApp(_ fields: [String: String], _ call: Call) -> ProviderResponse {
    guard let user = fields["user_uuid"], let token = fields["token"] else { return .refusal("Missing user") }
    let isAPNs = fields["token_kind"] == "1"
    guard !isAPNs || fields["ios_app_id"] == Self.topic else { return .refusal("Invalid ios_app_id") }
    if !call.isStrangers { world.isPassedOn(token) }
    oldApps.insert(OldApp(server: call.server.uuid, user: user, token: token, isAPNs: isAPNs))
    return .success
  }

  func unregisterOldApp(_ fields: [String: String], _ call: Call) -> ProviderResponse {
    let gone = oldApps.filter {
      $0.server == call.server.uuid && $0.user == fields["user_uuid"] && $0.token == fields["token"]
    }
    guard !gone.isEmpty else { return .refusal("Token does not exist") }
    oldApps.subtract(gone)
    return .success
  }

  /// Sends to all old apps of the user.
  func notifyOldApps(_ json: JSON, _ call: inout Call) -> ProviderResponse {
    let user = json["user_uuid"]?.string ?? ""
    func listed(_ name: String) -> [String] { json[name]?.elements.compactMap(\.string) ?? [] }
    if !call.isStrangers {
      for token in listed("apple_devices") + listed("android_devices") { world.isPassedOn(token) }
    }
    let text =
      json["apns_payload"]?["alert"]?.string ?? json["gcm_payload"]?["content"]?.string ?? ""
    let label = text.replacing(World.plaintext, with: "")
    let own = oldApps.filter { $0.server == call.server.uuid && $0.user == user }
    for app in own.sorted(by: { $0.token < $1.token }) {
      if call.trouble == .lyingDead {
        if world.isLive(app.token) { world.owners[app.token]?.lies += 1 }
      } else if world.owners[app.token]?.isOfStore == true,
        send(label, to: app.token, isLegacy: true, &call) == nil
      {
        oldApps.remove(app)
      }
    }
    let has = Set(
      oldApps.filter { $0.server == call.server.uuid && $0.user == user && call.trouble != .lyingDead }
        .map(\.token))
    func gone(_ name: String, _ kind: Route.Provider) -> String {
      let others =
        call.trouble == .namingOthers ? world.phones.filter { $0.kind == kind }.map(\.token) : []
      let asked = listed(name)
      return Self.list(
        asked.filter { !has.contains($0) }
          + others.filter { !asked.contains($0) })
    }
    return .vendor(
      200,
      """
      {"result":"success","msg":"","total_android_devices":\(own.count { !$0.isAPNs }),\
      "total_apple_devices":\(own.count(where: \.isAPNs)),"deleted_devices":{\
      "android_devices":\(gone("android_devices", .fcm)),"apple_devices":\(gone("apple_devices", .apns))},\
      "realm":null}
      """)
  }

  // MARK: Both

  private func realm(_ uuid: String?, _ call: Call) -> String? {
    guard let uuid, realms.contains(uuid) else { return nil }
    if uuid != call.server.realm {
      world.violate("signs in as the server", "the upstream bouncer is called for another server's realm")
    }
    return uuid
  }

  /// The phone that got it; nil: its token is dead.
  private func send(_ label: String, to token: String, isLegacy: Bool, _ call: inout Call) -> Phone? {
    guard let phone = world.owners[token], world.isLive(token) else { return nil }
    let push = ReceivedPush(to: token, label: label, isLegacy: isLegacy)
    let arrival = Arrival(push, at: world.time, from: call.life, isAnswerLost: call.isAnswerLost)
    call.arrivals.append(arrival)
    world.arrived(arrival)
    return phone
  }

  private static func list(_ names: [String]) -> String {
    "[" + names.map { "\"\($0)\"" }.joined(separator: ",") + "]"
  }
}
