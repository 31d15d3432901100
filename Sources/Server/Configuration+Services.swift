import Delivery
import Foundation
import Operations
import Wire
import ZulipBouncer

extension Configuration {
  /// No entry of the outbox is due further ahead than this, in seconds: providers may ask for an hour, and what a chat
  /// server sends beyond its limit is spread over so many windows of that.
  var longestPause: TimeInterval {
    max(Outbox.longestPause, (NotificationPace.share + 3) * (bouncer.notificationsPerServer?.seconds ?? 0))
  }
}

extension Configuration.HTTP {
  /// Of `server/analytics`, and of the push proxy's `/notifications`.
  var largestBodyBytes: Int { max(maxBodyBytes, 16 << 20) }

  /// What the outside calls this service: as it was configured, or where it listens.
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
    verifyEmailDomain = configuration.bouncer.verifyEmailDomain
    verifyCAFile = configuration.bouncer.verifyCAFile
    verifyAllowPrivateAddresses = configuration.bouncer.verifyAllowPrivateAddresses
    rateLimitPerServer = configuration.bouncer.rateLimitPerServer
    // Who wants no limit on calls wants none on these either.
    if rateLimitPerServer == nil { rateLimitOfRegistrations = nil }
    notificationsPerServer = configuration.bouncer.notificationsPerServer
    rateLimitPerAddress = http.rateLimitPerAddress
    maximumBodyBytes = http.maxBodyBytes
    maximumAnalyticsBytes = http.largestBodyBytes
    operatorEmail = configuration.operatorEmail
  }
}
