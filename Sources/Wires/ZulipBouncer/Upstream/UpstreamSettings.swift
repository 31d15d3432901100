package import Basics
package import Foundation
import HTTP

/// The setting of the upstream bouncer.
package struct UpstreamSettings: Sendable {
  package init() {}

  @Setting(
    "upstream.url", .bouncerAddress,
    "the upstream bouncer: that of the store's app, for servers that have that app too (push-bouncer server upstream enable)"
  )
  package var url: URL?

  /// The host, with the port if the address has one.
  package var authority: String? {
    url.flatMap { url in
      url.host(percentEncoded: false).map { "\($0)\(url.port.map { ":\($0)" } ?? "")" }
    }
  }
}

extension SettingShape<URL> {
  /// A bouncer's address. Chat servers' keys are sent there, so it must use TLS or be a loopback address.
  package static var bouncerAddress: SettingShape {
    SettingShape(
      expected: "a URL with https:// and a host, or with http:// and a loopback address",
      example: "https://push.zulipchat.com"
    ) { text throws(SettingError) in
      guard let url = try parse(text), let host = url.host(percentEncoded: false) else { return nil }
      return url.scheme == "https" || ClientAddress.isLoopback(host) ? url : nil
    }
  }
}
