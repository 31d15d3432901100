import Basics
package import Foundation
import Providers
import Registrations
import SQL

extension UpstreamLinks {
  /// Stores the key with which a server signs in, unless one is stored already. Notifications that wait because its key was
  /// missing or refused, or its realm refused, are tried at once.
  package func keep(_ key: String, of server: Int64) async throws {
    let isFormer = try await link(of: server)?.nextKey == key
    try await update(
      server,
      "org_key = $2\(isFormer ? ", next_key = NULL" : "") WHERE server_id = $1 AND org_key IS NULL",
      sealed(key, .upstreamKey, server))
    // One that is being tried at the moment may then be tried twice, which does no harm, since it was not accepted before.
    try await database.execute(
      """
      UPDATE outbox SET due_at = $2
      WHERE due_at > $2 AND reason IN ('upstreamKeyMissing', 'upstreamKeyRefused', 'upstreamRealmRefused')
        AND route_id IN (SELECT id FROM outbox_routes WHERE provider = 'upstream' AND owner = $1)
      """, .integer(Owner.chatServer(server).id), .integer(now().milliseconds))
  }

  /// Records that the server is about to get this key at the upstream bouncer.
  ///
  /// - Parameter seconds: the time after which the call that sets the key has ended.
  package func prepare(_ key: String, of server: Int64, within seconds: TimeInterval) async throws {
    try await update(
      server, "next_key = $2, due_at = $3, attempts = 0 WHERE server_id = $1",
      sealed(key, .upstreamNextKey, server), .integer((now() + seconds).milliseconds))
  }

  /// Records that the server has this key at the upstream bouncer.
  package func adopt(_ key: String, of server: Int64) async throws {
    try await update(
      server, "org_key = $2, next_key = NULL WHERE server_id = $1", sealed(key, .upstreamKey, server))
  }

  /// Records that a prepared key was refused, so that the server has its former key.
  package func withdraw(_ key: String, of server: Int64) async throws {
    guard let link = try await link(of: server), link.nextKey == key else { return }
    try await update(server, "next_key = NULL WHERE server_id = $1 AND next_key = $2", link.change)
  }

  /// Records that a link's key was accepted, after a change that may have failed. Nothing is recorded unless a report was
  /// due since then or the former key was refused: the call that changes the key may still be under way.
  package func confirmKey(_ link: Link) async throws {
    try await update(
      link.server, "next_key = NULL WHERE server_id = $1 AND next_key = $2 AND attempts > 0", link.change)
  }

  /// Records that a link's key was refused, so that the other one is tried next.
  package func swapKeys(_ link: Link) async throws {
    try await update(
      link.server,
      """
      org_key = $2, next_key = $3, attempts = CASE attempts WHEN 0 THEN 1 ELSE attempts END
      WHERE server_id = $1 AND next_key = $4
      """,
      sealed(link.nextKey, .upstreamKey, link.server), sealed(link.key, .upstreamNextKey, link.server),
      link.change)
  }
}
