package import Foundation

extension SimulatedProviders {
  /// What a simulator needs to know before it starts.
  package struct Configuration: Sendable {
    /// Port of the APNs listener; 0 picks a free one.
    package var apnsPort = 0
    /// Port of the listener for FCM, its OAuth endpoint and the control calls; 0 picks a free one.
    package var fcmPort = 0
    /// Port of the listener of Web Push's push service; 0 picks a free one.
    package var webPushPort = 0
    /// The bundle ids that the APNs key may push to.
    package var topics = [
      "org.example.chat", "com.nextcloud.Talk", "it.twsweb.Nextcloud", "org.zulip.Zulip", "example.app",
    ]
    /// `production` or `sandbox`, as written to the key's description.
    package var environment = "production"
    /// The Firebase project.
    package var projectID = "push-bouncer-simulator"
    /// Makes the service account's `token_uri` an `http://` URL, so that FCM needs no trust root.
    package var clear = false
    /// A `Keys` folder to take the credentials from if an earlier run left them there, and to write them to.
    package var keysDirectory: String?
    /// How long an OAuth access token lasts, in seconds.
    package var accessTokenLifetime = 3600
    /// How long a connection must keep one provider token, in seconds (Apple: 20 minutes).
    var providerTokenInterval: TimeInterval = 20 * 60
    /// How many notifications are kept for reading; older ones go.
    package var keptDeliveries = 1_000_000
    /// The clock by which tokens are judged.
    package var now: @Sendable () -> Date = { Date() }

    /// The defaults: free ports, fresh credentials, nothing written.
    package init() {}
  }
}
