package import Foundation
package import Settings

/// All calls to the outside.
package struct ProvidersSettings: Sendable {
  package init() {}

  @Setting(
    "providers.ca_file", .file("Keys/ca.pem"),
    "certificates, besides the system's, that are trusted in all calls to the outside")
  package var caFile: String?

  @Setting(
    "providers.proxy", .proxy,
    "HTTP CONNECT proxy for outgoing calls: http://user:password@host:port", secrecy: .password)
  package var proxy: URL?
}
