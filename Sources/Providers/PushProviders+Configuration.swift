package import Foundation

extension PushProviders {
  /// Where the providers are and how to trust them.
  package struct Configuration: Sendable {
    /// Instead of Apple's hosts: a simulator's `https` URL.
    package var apnsEndpoint: URL?
    /// FCM's URL, Google's where nil; with `http` the simulator is spoken to over HTTP/1.1 in clear.
    package var fcmEndpoint: URL?
    /// PEM file with a trust root besides the system's.
    package var caFile: String?
    /// HTTP CONNECT proxy, `http://[user:password@]host:port`.
    package var proxy: URL?

    /// Apple's and Google's own endpoints unless told otherwise.
    package init(apnsEndpoint: URL? = nil, fcmEndpoint: URL? = nil, caFile: String? = nil, proxy: URL? = nil)
    {
      self.apnsEndpoint = apnsEndpoint
      self.fcmEndpoint = fcmEndpoint
      self.caFile = caFile
      self.proxy = proxy
    }
  }

  /// A configuration that cannot work.
  package struct ConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The configuration key.
    package let key: String
    /// What to do.
    package let advice: String

    /// For people.
    package var description: String { "\(key): \(advice)" }
  }
}
