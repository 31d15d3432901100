internal import Foundation
internal import HTTP
internal import Sealing

extension Device.State {
  /// As clients know it (`Documentation/Protocols/Zulip.md` 10.2): all of it, or only some parts.
  func members(_ fields: Device.Fields? = nil) -> [JSON.Object.Member] {
    let all: [(Device.Fields, JSON.Object.Member)] = [
      (.pushKeyID, .init("push_key_id", .optional(pushKeyID.map(Int64.init)))),
      (.tokenID, .init("push_token_id", .optional(tokenID?.base64))),
      (.pendingTokenID, .init("pending_push_token_id", .optional(pendingTokenID?.base64))),
      (
        .tokenUpdatedAt,
        .init(
          "push_token_last_updated_timestamp",
          .optional(tokenUpdatedAt.map { Int64($0.timeIntervalSince1970) }))
      ),
      (.error, .init("push_registration_error_code", .optional(error?.rawValue))),
    ]
    return all.filter { field, _ in fields?.contains(field) ?? true }.map(\.1)
  }
}

extension DeviceEvent {
  /// `{"type":"device","op":...}`
  var json: JSON {
    let (name, rest): (JSON, [JSON.Object.Member]) =
      switch operation {
      case .added: ("add", [])
      case .removed: ("remove", [])
      case .updated(let fields, let state): ("update", state.members(fields))
      }
    return .object(
      JSON.Object(
        [
          .init("type", "device"), .init("op", name), .init("device_id", .integer(device)),
          .init("id", .integer(number)),
        ] + rest))
  }
}
