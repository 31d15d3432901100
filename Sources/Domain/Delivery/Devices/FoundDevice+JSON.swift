internal import Foundation
package import HTTP
package import Providers
internal import Registrations
internal import Sealing

extension FoundDevice {
  /// What `device show` and `push/status` say of it.
  package func json(for reader: Explanation.Reader) -> JSON.Object {
    [
      "name": .string(name), "kind": .string("\(kind)"), "state": .string(state.rawValue),
      "advice": .string(advice(for: reader)), "provider": .string(provider), "app": .optional(app),
      "target": .optional(target), "environment": .optional(environment?.rawValue),
      "server": serverJSON, "realm": realmJSON,
      "user": .optional(user), "token_id": .optional(tokenID?.base64),
      "token_fingerprint": .optional(fingerprint),
      "token_kind": .optional(isInstallationID.map { $0 ? "installation_id" : "token" }),
      "token_changed_at": .time(tokenChangedAt), "bouncer_key": .optional(bouncerKey),
      "device_identifier": .optional(identifier), "registered_at": .time(registeredAt),
      "ended_at": .time(endedAt), "last_success_at": .time(deliveredAt),
      "last_failure": Self.json(failure, for: reader),
      "held_deletion": Self.json(held, for: reader), "waiting": .integer(waiting),
      "waiting_since": .time(waitingSince),
      "waiting_for": waitingFor(for: reader),
    ]
  }

  private var serverJSON: JSON {
    guard let server else { return .null }
    return .object(.server(server.uuid, hostname: server.host, isDeactivated: server.isDeactivated))
  }

  private var realmJSON: JSON {
    guard let realm else { return .null }
    return .object(.realm(realm.uuid, host: realm.host, isDeactivated: realm.isDeactivated))
  }

  /// Why the notification that is due first waits, and until when.
  private func waitingFor(for reader: Explanation.Reader) -> JSON {
    guard let waitReason else { return .null }
    var json = JSON.Object.explained(waitReason, for: reader)
    json["until"] = .time(waitingUntil)
    return .object(json)
  }

  private static func json(_ failure: Failure?, for reader: Explanation.Reader) -> JSON {
    guard let failure else { return .null }
    var json = JSON.Object.explained(failure.reason, for: reader)
    json["at"] = .time(failure.at)
    return .object(json)
  }
}

extension JSON.Object {
  /// A reason, with what it means and what to do.
  package static func explained(
    _ reason: String?, for reader: Explanation.Reader = .operator
  ) -> JSON.Object {
    let explanation = reason.map { Explanation.of($0, to: reader) }
    return [
      "reason": .optional(reason), "meaning": .optional(explanation?.meaning),
      "advice": .optional(explanation?.advice),
    ]
  }
}
