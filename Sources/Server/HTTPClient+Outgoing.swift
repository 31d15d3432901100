package import AsyncHTTPClient
import Foundation
package import NIOSSL
package import Operations
import Providers

extension HTTPClient.Configuration {
  /// For calls to the outside, under the same trust and through the same proxy as pushes.
  ///
  /// - Parameter roots: more trust roots.
  package static func outgoing(
    _ providers: Configuration.Providers, trusting roots: [NIOSSLCertificate] = []
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
