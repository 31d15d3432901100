import Delivery
import Foundation
import HTTP
import Operations
import Providers
import ZulipBouncer

extension Configuration {
  /// The longest that an entry of the outbox may have to wait, in seconds: providers may ask for an hour, and what a
  /// chat server sends beyond its limit is spread over several windows of that limit.
  var longestPause: TimeInterval {
    max(Outbox.longestPause, (NotificationPace.share + 3) * (bouncer.notificationsPerServer?.seconds ?? 0))
  }
}

extension Configuration.HTTP {
  /// The largest body of `server/analytics` and of the push proxy's `/notifications`.
  var largestBodyBytes: Int { max(maxBodyBytes, 16 << 20) }

  /// The address by which the outside reaches this service: the configured one, or where it listens.
  func publicAddress(listeningOn port: Port) -> @Sendable () -> String {
    let (publicURL, origin) = (publicURL, "\(tls == nil ? "http" : "https")://\(host)")
    return { [standard = self.port] in publicURL ?? "\(origin):\(port.number ?? standard)" }
  }
}

extension ZulipBouncerRoutes.Configuration {
  /// For the built-in chat-server side, whose users have limits of their own. It is called without a wire,
  /// where the other limits are.
  static func unlimited(_ configuration: Configuration, port: Port) -> Self {
    var settings = Self(configuration, port: port)
    settings.notificationsPerServer = nil
    return settings
  }

  init(_ configuration: Configuration, port: Port) {
    let http = configuration.http
    self.init(publicURL: http.publicAddress(listeningOn: port))
    registration = configuration.bouncer.registration == .open ? .open : .closed
    allowedHostnames = configuration.bouncer.allowedHostnames
    verifyHostnames = configuration.bouncer.verifyHostnames
    verifyCAFile = configuration.bouncer.verifyCAFile
    verifyAllowPrivateAddresses = configuration.bouncer.verifyAllowPrivateAddresses
    rateLimitPerServer = configuration.bouncer.rateLimitPerServer
    // Without a limit on calls there is none on these either.
    if rateLimitPerServer == nil { rateLimitOfRegistrations = nil }
    notificationsPerServer = configuration.bouncer.notificationsPerServer
    rateLimitPerAddress = http.rateLimitPerAddress
    maximumBodyBytes = http.maxBodyBytes
    maximumAnalyticsBytes = http.largestBodyBytes
    operatorEmail = configuration.operatorEmail
  }
}

extension PushProviders.Configuration {
  /// Where the providers are, and with Web Push the key pair that its subscriptions are bound to, which is made the
  /// first time.
  init(_ configuration: Configuration, store: Store, descriptors: DescriptorLimit) async throws {
    self.init(configuration)
    let settings = configuration.webPush
    guard settings.isEnabled else { return }
    let keys = VAPIDKeys(database: store.database, storageKey: store.storageKey, now: store.now)
    webPush = WebPush(
      key: try await keys.key(), contact: settings.contact, privateHosts: settings.privateHosts,
      connections: descriptors.pushServiceConnections)
  }
}
