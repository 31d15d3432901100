import Basics
import HTTP
import NextcloudProxy
import NextcloudServer
import Platform
import Registrations
import SQL

extension Doctor {
  /// Reports that others are told the listener's own address, because `http.public_url` is not set. Not for a first
  /// trial on this machine, where nobody else calls.
  ///
  /// - Parameter asksDatabase: whether the database can be used.
  func publicURLFinding(asksDatabase: Bool) async -> Finding {
    let check = "http.public_url"
    let http = configuration.http
    if let url = http.publicURL { return .good(check, "chat servers and apps are told \(url)") }
    let apps = configuration.nextcloudProxy.isEnabled ? configuration.nextcloudServer.publicURLReaders : nil
    let isReached = !ClientAddress.isLoopback(http.host) || http.tls != nil || !http.trustedProxies.isEmpty
    let isCalled = asksDatabase ? await hasCallers() : false
    guard apps != nil || isReached || isCalled else {
      return .good(check, "is not set, and no chat server has called yet")
    }
    let address = "\(http.tls == nil ? "http" : "https")://\(http.host):\(http.port)"
    let told = ["the administrators of chat servers (server/billing)", apps].compactMap(\.self)
    return .warning(
      check, "is not set, so \(told.joined(separator: " and ")) are told \(address)",
      advice:
        "set it to the address by which chat servers and apps reach this service: https://push.example.org")
  }

  /// Whether a chat server of others has called.
  private func hasCallers() async -> Bool {
    guard let database = await visit.existing() else { return false }
    let rows = try? await database.query(
      Statement(
        "SELECT 1 FROM remote_servers WHERE last_request_at IS NOT NULL AND hostname <> $1 LIMIT 1",
        .text(RemoteServers.builtInHostname)))
    return rows?.isEmpty == false
  }
}
