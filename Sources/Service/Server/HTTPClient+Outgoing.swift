package import AsyncHTTPClient
import FoundationEssentials
import HTTPClient
package import NIOSSL
package import Providers

extension HTTPClient.Configuration {
  /// The HTTP client settings for outgoing calls, with the same trust roots and the same HTTP proxy as
  /// pushes.
  ///
  /// - Parameter roots: additional trust roots.
  package static func outgoing(
    _ providers: ProvidersSettings, trusting roots: [NIOSSLCertificate] = []
  ) -> Self {
    var settings = HTTPClient.Configuration()
    var tls = TLSConfiguration.outgoing(caFile: providers.caFile)
    if !roots.isEmpty { tls.additionalTrustRoots.append(.certificates(roots)) }
    settings.tlsConfiguration = tls
    settings.guardConnections()
    if let proxy = providers.proxy, let host = proxy.host() {
      let user = proxy.user().map {
        HTTPClient.Authorization.basic(username: $0, password: proxy.password() ?? "")
      }
      settings.proxy = .server(host: host, port: proxy.port ?? 80, authorization: user)
    }
    return settings
  }
}
