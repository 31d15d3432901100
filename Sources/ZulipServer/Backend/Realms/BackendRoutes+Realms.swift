internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Registrations

extension BackendRoutes {
  /// `PUT realms/{realm_uuid}`: adds a realm, or makes the one that is there as told.
  func putRealm(_ request: Request, _ context: WireContext) async throws -> Response {
    let uuid = try context.realmUUID()
    let body = try await Self.body(of: request, members: ["name", "url", "require_e2ee_push_notifications"])
    let (realm, before) = try await accounts.put(
      realm: uuid, name: try body["name"].name(), url: try body["url"].url(),
      requiresE2EE: try body["require_e2ee_push_notifications"].present?.bool())
    if realm != before { realmsChanged() }
    return Envelope.response(before == nil ? .created : .ok, realm.members)
  }
}

extension ChatRealm {
  fileprivate var members: [JSON.Object.Member] {
    [
      .init("realm_uuid", .string(uuid.canonical)), .init("name", .string(name)), .init("url", .string(url)),
      .init("require_e2ee_push_notifications", .bool(requiresE2EE)),
    ]
  }
}
