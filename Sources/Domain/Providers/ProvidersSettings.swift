package import Basics
package import Foundation

/// The settings of all outgoing calls.
package struct ProvidersSettings: Sendable {
  package init() {}

  @Setting(
    "providers.ca_file", .file("Keys/ca.pem"),
    "certificates of authorities, besides the system's, that are trusted in all outgoing calls")
  package var caFile: String?

  @Setting(
    "providers.proxy", .proxy,
    "HTTP CONNECT proxy for outgoing calls: http://user:password@host:port", secrecy: .password)
  package var proxy: URL?
}
