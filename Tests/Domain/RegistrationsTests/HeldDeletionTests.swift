import Foundation
import Providers
import Registrations
import SQL
import Sealing
import TestStore
import TestSupport
import Testing

@Suite("Registrations that a provider calls dead")
struct HeldDeletionTests {
  @Test
  func `end when it still does after a whole hour, and not before`() async throws {
    let store = try await Store()
    let server = try await store.server().server
    let (token, user) = (try PushToken("fcm:token", kind: .fcm), LegacyUser(id: 10, uuid: UUID()))
    try await store.registrations.register(token, iosAppID: nil, for: user, server: server.id, realm: nil)
    let found = try await store.registrations.find(token, of: user, server: server.id)
    let registration = try #require(found).reference
    let insertion = """
      INSERT INTO outbox_routes (provider, credential, target) VALUES ('fcm', 'default', 'demo') RETURNING id
      """
    let route = try await store.database.execute(insertion)[0].int64("id")
    func hold() async throws -> (held: Set<RegistrationReference>, ended: Set<RegistrationReference>) {
      try await store.registrations.hold([(.init(registration, reason: "UNREGISTERED"), route)])
    }
    #expect(try await hold() == ([registration], []))
    store.clock.advance(3599)
    #expect(try await hold() == ([], []))
    store.clock.advance(1)
    #expect(try await hold() == ([], [registration]))
    #expect(try await store.rows("SELECT id FROM registrations").isEmpty)
  }
}
