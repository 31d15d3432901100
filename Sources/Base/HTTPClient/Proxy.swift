package import Foundation

/// An HTTP proxy that supports CONNECT (RFC 9110 section 9.3.6).
package struct Proxy: Sendable, Hashable {
  package let host: String
  package let port: Int
  /// `user:password`, if the proxy requires it.
  package let userInfo: String?

  /// From `http://[user:password@]host:port`; nil for any other URL.
  package init?(_ url: URL) {
    guard url.scheme == "http", let host = url.host(percentEncoded: false), !host.isEmpty else { return nil }
    self.host = host
    self.port = url.port ?? 80
    self.userInfo = url.user(percentEncoded: false).map {
      "\($0):\(url.password(percentEncoded: false) ?? "")"
    }
  }
}
