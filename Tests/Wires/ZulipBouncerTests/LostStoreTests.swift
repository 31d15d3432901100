import Foundation
import HTTP
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("A database that has lost registrations")
struct LostStoreTests {
  private var bouncer: Bouncer { Fixture.current }

  @Test(.bouncer())
  func `has no chat server forget a device for an hour`() async throws {
    let server = try await bouncer.server()
    let realm = try await bouncer.realm(of: server)
    let user = OldUser(id: 10)
    func gone() async throws -> [JSON?] {
      let sealed = try await bouncer.post(
        "push/e2ee/notify", json: PushItem.body(realm, [PushItem.fcm("lost")]), as: server)
      let clear = try await bouncer.post(
        "push/notify", json: user.notification("x", android: ["old-lost"]), as: server)
      return [sealed.json["delete_token_ids"], clear.json["deleted_devices"]?["android_devices"]]
    }
    let forgotten: [JSON?] = [[.string(TokenID(token: "lost").base64)], ["old-lost"]]
    // Another phone stays registered, so that there is something to lose.
    _ = try await bouncer.post(
      "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.fcm("other")), as: server)
    #expect(try await gone() == forgotten)
    // A standby that lacks the last registrations has been promoted, or a backup put back.
    _ = try await bouncer.database.execute(
      "UPDATE metadata SET value = $1 WHERE name = 'store'", .bytes([UInt8](repeating: 7, count: 16)))
    #expect(try await gone() == [[], []])
    bouncer.clock.advance(3599)
    #expect(try await gone() == [[], []])
    bouncer.clock.advance(2)
    #expect(try await gone() == forgotten)
  }
}
