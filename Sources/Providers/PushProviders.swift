public import Foundation

/// APNs and FCM behind one door: a push in, an ``Outcome`` out.
public final class PushProviders: Sendable {
  /// Where the providers are and how to trust them.
  public struct Configuration: Sendable {
    /// Instead of Apple's hosts: a simulator's `https` URL.
    public var apnsEndpoint: URL?
    /// FCM's URL; with `http` the simulator is spoken to over HTTP/1.1 in clear.
    public var fcmEndpoint: URL
    /// PEM file with a trust root besides the system's.
    public var caFile: String?
    /// HTTP CONNECT proxy, `http://[user:password@]host:port`.
    public var proxy: URL?

    /// Apple's and Google's own endpoints unless told otherwise.
    public init(
      apnsEndpoint: URL? = nil, fcmEndpoint: URL = URL(string: "https://fcm.googleapis.com")!,
      caFile: String? = nil,
      proxy: URL? = nil
    ) {
      self.apnsEndpoint = apnsEndpoint
      self.fcmEndpoint = fcmEndpoint
      self.caFile = caFile
      self.proxy = proxy
    }
  }

  /// How a route fares, for `/readyz`.
  public enum RouteState: Sendable, Hashable {
    /// Not used yet.
    case unknown
    /// The last answer was about a notification, not about the route.
    case ok
    /// Something is wrong with the route itself.
    case failing(Reason, since: Date)
  }

  /// Prepares the clients; connects on first use.
  public init(configuration: Configuration) throws {
    fatalError("contract")
  }

  /// Takes these credentials from now on. Requests in flight end with the ones they began with;
  /// credentials that did not change keep their connections and tokens.
  public func use(_ credentials: Credentials) {
    fatalError("contract")
  }

  /// The route that the push would take; nil where no credential serves its topic or project.
  public func route(for push: Push) -> Route? {
    fatalError("contract")
  }

  /// Sends one push and returns what became of it, by the deadline at the latest.
  public func send(_ push: Push, deadline: ContinuousClock.Instant) async -> Outcome {
    fatalError("contract")
  }

  /// The state of every route of the present credentials, and of every credential not used yet.
  public func routeStates() -> [Route: RouteState] {
    fatalError("contract")
  }

  /// Closes all connections after the requests in flight have ended.
  public func shutdown() async {
    fatalError("contract")
  }
}
