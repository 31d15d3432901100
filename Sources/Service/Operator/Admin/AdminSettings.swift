package import Basics

/// The operator's listener.
package struct AdminSettings: Sendable {
  package init() {}

  @Setting(
    "admin.host", "127.0.0.1", .host("10.0.0.5"),
    "address of the operator's listener; never a public one. Other than loopback needs admin.token")
  package var host: String

  @Setting("admin.port", "8081", .port(9081), "port of the operator's listener")
  package var port: Int

  @Setting(
    "admin.token", .token,
    "where set, the bearer token that /metrics, /deliveries, /admin and the checks of /readyz require",
    secrecy: .whole)
  package var token: String?
}
