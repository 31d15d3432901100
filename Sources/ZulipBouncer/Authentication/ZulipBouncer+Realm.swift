internal import Foundation
internal import HTTPTypes
internal import Registrations
internal import Wire

extension ZulipBouncer {
  /// The realm that a server calls for, its call noted.
  func caller(_ uuid: UUID, of server: RemoteServer) async throws -> RemoteRealm {
    let realm = try await realm(uuid, of: server)
    dependencies.requestTimes.note(realm: realm.id)
    return realm
  }

  /// The realm of a server with this UUID.
  func realm(_ uuid: UUID, of server: RemoteServer) async throws -> RemoteRealm {
    switch try await dependencies.realms.find(uuid: uuid, server: server.id) {
    case .owned(let realm): return realm
    case .unknown: throw APIError.missingRealm
    case .anothersRealm:
      throw APIError(
        .forbidden, code: "REMOTE_REALM_SERVER_MISMATCH_ERROR",
        """
        Your organization is registered to a different Zulip server. Please contact Zulip support for \
        assistance in resolving this issue.
        """)
    }
  }
}

extension UUID {
  /// The realm that a server names.
  init(realm text: String) throws(APIError) {
    guard let uuid = UUID(pythonText: text) else { throw .missingRealm }
    self = uuid
  }
}

extension APIError {
  fileprivate static var missingRealm: APIError {
    APIError(.forbidden, code: "MISSING_REMOTE_REALM", "Organization not registered")
  }
}
