public import Foundation

extension PushProviders {
  /// Where the providers are and how to trust them.
  public struct Configuration: Sendable {
    /// Instead of Apple's hosts: a simulator's `https` URL.
    public var apnsEndpoint: URL?
    /// FCM's URL, Google's where nil; with `http` the simulator is spoken to over HTTP/1.1 in clear.
    public var fcmEndpoint: URL?
    /// PEM file with a trust root besides the system's.
    public var caFile: String?
    /// HTTP CONNECT proxy, `http://[user:password@]host:port`.
    public var proxy: URL?

    /// Apple's and Google's own endpoints unless told otherwise.
    public init(apnsEndpoint: URL? = nil, fcmEndpoint: URL? = nil, caFile: String? = nil, proxy: URL? = nil) {
      self.apnsEndpoint = apnsEndpoint
      self.fcmEndpoint = fcmEndpoint
      self.caFile = caFile
      self.proxy = proxy
    }
  }

  /// A configuration that cannot work.
  public struct ConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The configuration key.
    public let key: String
    /// What to do.
    public let advice: String

    /// For people.
    public var description: String { "\(key): \(advice)" }
  }
}
