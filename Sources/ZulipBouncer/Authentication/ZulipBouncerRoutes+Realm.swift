internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Registrations

extension ZulipBouncerRoutes {
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
    case .anothersRealm: throw APIError.anothersRealm(uuid)
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
