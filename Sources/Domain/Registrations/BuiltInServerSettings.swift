package import Basics

/// Settings of both built-in servers, for Zulip's apps and for Nextcloud's.
package struct BuiltInServerSettings: Sendable {
  package init() {}

  @Setting(
    "server.rate_limit.per_user", "200/60s", .rate,
    "calls per user of the built-in chat-server side; 0 switches the limit off")
  package var rateLimitPerUser: RateLimit?

  @Setting(
    "server.name", "push-bouncer", .text("Example Chat"),
    "name of the realm that account add makes, and of the built-in Nextcloud server")
  package var name: String

  @Setting(
    "server.url", "http://localhost:8080", .address("https://chat.example.org"),
    "address of the realm that account add makes, and of the built-in Nextcloud server")
  package var url: String
}

extension BuiltInServerSettings {
  /// ``url`` if the operator has set it.
  package var setURL: String? { _url.isSet ? url : nil }
}
