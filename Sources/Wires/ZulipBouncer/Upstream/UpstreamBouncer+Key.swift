import Foundation
package import HTTP
import Providers
package import Registrations
import SQL

extension UpstreamBouncer {
  /// Gives a server a new key at the upstream bouncer.
  ///
  /// - Parameters:
  ///   - present: the key with which the server signs in here; nil if it is not known.
  ///   - more: parameters that are not known here.
  /// - Throws: the reason why the key was not accepted, for the server's admin.
  package func rotate(
    _ server: RemoteServer, from present: String?, to newKey: String, hostname: String, contactEmail: String,
    with more: [Form.Field] = []
  ) async throws {
    guard var link = try await links.link(of: server.id) else { return }
    if link.key == nil {
      // Without the server's own, the one that it had before the link was enabled again.
      if let present { try await links.keep(present, of: server.id) } else { try await links.swapKeys(link) }
      link = try await links.link(of: server.id) ?? link
    }
    func failure(_ reason: String) -> APIError {
      APIError(
        """
        Nothing has changed: the upstream bouncer (\(host)) did not take the new key: \(reason)
        """)
    }
    guard !contactEmail.isEmpty else {
      throw failure(
        """
        it needs the address of the server's administrator, which is not known here. Give it with the next change of the \
        key: push-bouncer server rotate-key \(server.hostname) --contact-email ADDRESS
        """)
    }
    let end = ContinuousClock.now + Self.timeout
    // After an interrupted change it must first be known which of two keys the server has there.
    var reason = "the change before may still be under way: try again in ten seconds"
    for _ in 1...2 where link.nextKey != nil {
      do {
        try await status(link, until: end)
      } catch let error as APIError {
        reason = "which key it has now is not known after the change before: \(error.message)"
      }
      link = try await links.link(of: server.id) ?? link
    }
    guard link.nextKey == nil else { throw failure(reason) }
    guard let key = link.key else {
      throw failure(
        """
        the key that the server has there is not known here yet. It is as soon as the server has called: manage.py \
        register_server
        """)
    }
    let form = Self.form(
      [
        ("zulip_org_id", server.uuid.canonical), ("zulip_org_key", key), ("hostname", hostname),
        ("contact_email", contactEmail), ("new_org_key", newKey),
      ], with: more)
    try await links.prepare(newKey, of: server.id, within: Self.timeout / .seconds(1))
    var isRefused = false
    do {
      let answer = try await answer(
        to: UpstreamCall("server/register", form: form), of: server.id, until: end)
      // Nothing was changed, whoever says so: a bouncer, or a proxy in front of it.
      isRefused = (300..<500).contains(answer.status)
      if isRefused { try await links.withdraw(newKey, of: server.id) }
      try result(of: answer)
    } catch let error as APIError {
      guard !isRefused else { throw failure(error.message) }
      throw APIError(
        """
        It is not known yet whether the upstream bouncer (\(host)) took the new key: \(error.message). Here nothing has \
        changed. Which key it has there is found out with the next report: try again in ten seconds
        """)
    }
    try await links.adopt(newKey, of: server.id)
  }
}
