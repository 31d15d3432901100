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
    /// What Web Push needs; nil: it is switched off.
    package var webPush: WebPush?

    /// Who sends to push services, and which of them may be at home.
    package struct WebPush: Sendable {
      /// The key pair that subscriptions are bound to.
      package var key: VAPIDKey
      /// `sub` of VAPID tokens: a `mailto:` or `https:` URL.
      package var contact: String
      /// Push services that may have private addresses, in lower case.
      package var privateHosts: Set<String>
      /// How many connections there may be to push services; a quarter of them to such as do not answer.
      package var connections: Int

      /// Web Push by its parts.
      package init(
        key: VAPIDKey, contact: String, privateHosts: Set<String> = [], connections: Int = 1000
      ) {
        self.connections = connections
        self.key = key
        self.contact = contact
        self.privateHosts = privateHosts
      }
    }

    /// Apple's and Google's own endpoints unless told otherwise.
    package init(
      apnsEndpoint: URL? = nil, fcmEndpoint: URL? = nil, caFile: String? = nil, proxy: URL? = nil,
      webPush: WebPush? = nil
    ) {
      self.webPush = webPush
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
