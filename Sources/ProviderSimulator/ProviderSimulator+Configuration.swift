public import Foundation

extension ProviderSimulator {
  /// What a simulator needs to know before it starts.
  public struct Configuration: Sendable {
    /// Port of the APNs listener; 0 picks a free one.
    public var apnsPort = 0
    /// Port of the listener for FCM, its OAuth endpoint and the control calls; 0 picks a free one.
    public var fcmPort = 0
    /// The bundle ids that the APNs key may push to.
    public var topics = [
      "org.example.chat", "com.nextcloud.Talk", "it.twsweb.Nextcloud", "org.zulip.Zulip", "example.app",
    ]
    /// `production` or `sandbox`, as written to the key's description.
    public var environment = "production"
    /// The Firebase project.
    public var projectID = "push-bouncer-simulator"
    /// Makes the service account's `token_uri` an `http://` URL, so that FCM needs no trust root.
    public var clear = false
    /// A `Keys` folder to take the credentials from if an earlier run left them there, and to write them to.
    public var keysDirectory: String?
    /// How long an OAuth access token lasts, in seconds.
    public var accessTokenLifetime = 3600
    /// How long a connection must keep one provider token, in seconds (Apple: 20 minutes).
    public var providerTokenInterval: TimeInterval = 20 * 60
    /// How many notifications are kept for reading; older ones go.
    public var keptDeliveries = 1_000_000
    /// The clock by which tokens are judged.
    public var now: @Sendable () -> Date = { Date() }

    /// The defaults: free ports, fresh credentials, nothing written.
    public init() {}
  }
}
