public import Foundation
public import Logging
public import Registrations
public import SQL
public import Wire

/// The configuration as the service uses it.
public struct Configuration: Sendable {
  /// `http.tls`: with both files the public listener speaks TLS.
  public struct TLS: Sendable {
    /// The certificate chain in PEM.
    public var certificateFile: String
    /// The key of the first certificate in PEM.
    public var keyFile: String
  }

  /// `http`: the public listener.
  public struct HTTP: Sendable {
    /// Its address.
    public var host: String
    /// Its port; 0 picks a free one.
    public var port: Int
    /// Its certificate, if it speaks TLS.
    public var tls: TLS?
    /// Whose `X-Forwarded-For` is believed.
    public var trustedProxies: [ClientAddress.Network]
    /// What the outside calls this service, without a slash at its end; nil for host and port.
    public var publicURL: String?
    /// As many connections as callers may have at a time; nil is by the descriptor limit.
    public var maxConnections: Int?
    /// As many as one address may have.
    public var maxConnectionsPerAddress: Int
    /// Larger bodies are refused.
    public var maxBodyBytes: Int
    /// As many bytes of bodies are read or held at a time.
    public var maxBytesInFlight: Int
    /// Calls without credentials per client address; nil is no limit.
    public var rateLimitPerAddress: RateLimit?
  }

  /// `admin`: the operator's listener.
  public struct Admin: Sendable {
    /// Its address.
    public var host: String
    /// Its port; 0 picks a free one.
    public var port: Int
    /// Where set, who wants the metrics has to show it.
    public var token: String?
  }

  /// `database`
  public struct Database: Sendable {
    /// Where the database is.
    public var url: DatabaseURL
  }

  /// `keys`
  public struct Keys: Sendable {
    /// The folder of keys and credentials.
    public var directory: String
  }

  /// `bouncer`: who may use it, and how often.
  public struct Bouncer: Sendable {
    /// Who may register as a chat server.
    public enum Registration: String, Sendable, CaseIterable {
      /// `closed`: whom the operator has let in; `open`: everybody.
      case closed, open
    }

    /// Who may register as a chat server.
    public var registration: Registration
    /// Hostnames that may register although registration is closed.
    public var allowedHostnames: [HostnamePattern]
    /// Whether whoever takes a hostname must show that it is its own.
    public var verifyHostnames: Bool
    /// Whether the mail domain of a contact is looked up.
    public var verifyEmailDomain: Bool
    /// A trust root for calls to chat servers.
    public var verifyCAFile: String?
    /// Whether chat servers may have private addresses.
    public var verifyAllowPrivateAddresses: Bool
    /// Calls per chat server, but for notifications and registrations; nil is no limit.
    public var rateLimitPerServer: RateLimit?
    /// Notifications of a chat server that are sent at once, the rest at that pace; nil is no limit.
    public var notificationsPerServer: RateLimit?
  }

  /// `apns`
  public struct APNs: Sendable {
    /// Instead of Apple's hosts.
    public var endpoint: URL?
  }

  /// `fcm`
  public struct FCM: Sendable {
    /// Google's, or a simulator's.
    public var endpoint: URL?
    /// The stem of the file with the project of whoever names none.
    public var defaultProject: String?
  }

  /// `providers`: for both.
  public struct Providers: Sendable {
    /// A trust root besides the system's.
    public var caFile: String?
    /// The HTTP CONNECT proxy for outgoing calls.
    public var proxy: URL?
  }

  /// `delivery`
  public struct Delivery: Sendable {
    /// How long a notify request waits for the providers.
    public var deadline: Duration
    /// After this an undelivered notification is given up.
    public var maxAge: Duration
  }

  /// `retention`
  public struct Retention: Sendable {
    /// Days after which expired registrations are removed.
    public var expiredDays: Int
    /// Days after which the Nextcloud proxy forgets a device that nobody renews or sends to.
    public var nextcloudDays: Int
    /// Days for which Nextcloud's apps can fetch a notification.
    public var notificationsDays: Int
  }

  /// `server`: the built-in chat-server side.
  public struct Server: Sendable {
    /// With whom it registers devices.
    public enum Bouncer: Sendable, Hashable {
      /// This process.
      case local
      /// Nobody: there are no push notifications then.
      case off
      /// Another bouncer at this address, where it is known by `orgID` and `orgKey`.
      case remote(URL)
    }

    /// What notifications call a realm that is made without a name.
    public var name: String
    /// Its address in them, without a slash at its end.
    public var url: String
    /// With whom it registers devices.
    public var bouncer: Bouncer
    /// Its id at another bouncer; there with `remote`.
    public var orgID: String?
    /// Its key at another bouncer; there with `remote`.
    public var orgKey: String?
    /// Calls per user; nil is no limit.
    public var rateLimitPerUser: RateLimit?
  }

  /// `nextcloud`
  public struct Nextcloud: Sendable {
    /// How notifications are padded for a phone's key.
    public enum Padding: String, Sendable, CaseIterable {
      /// As Nextcloud 35 does.
      case OAEP
      /// PKCS#1 v1.5, as Nextcloud 31 and older do.
      case PKCS1
    }

    /// Whether there is any of it.
    public var isEnabled: Bool
    /// The instance's address, without a slash at its end.
    public var url: String
    /// Where apps and browsers find it: the same, unless nobody has said what that is; nil is this service's own.
    public var address: String?
    /// The push proxy of clients that name none; nil is this service's own.
    public var defaultProxy: String?
    /// Whether push proxies may be local, and without TLS.
    public var allowsLocalProxies: Bool
    /// A trust root for push proxies.
    public var proxiesCAFile: String?
    /// How notifications are padded for a phone's key.
    public var padding: Padding
    /// A JSON file with own builds and brands.
    public var appsFile: String?
    /// The name of the app that is taken for any that nobody knows; nil refuses those.
    public var defaultApp: String?
    /// How long the push proxy lets a server wait for the providers.
    public var deadline: Duration
    /// Calls of the push proxy per client address, on each of its endpoints; nil is no limit.
    public var rateLimitPerAddress: RateLimit?
    /// Devices that the push proxy did not know before, per client address; nil is no limit.
    public var newDevicesPerAddress: RateLimit?
    /// The push proxy that gets the subscription key.
    public var subscriptionServer: String
    /// The key that it gets.
    public var subscriptionKey: String?
  }

  /// `log`
  public struct Log: Sendable {
    /// What is less than this is not logged.
    public var level: Logger.Level
    /// How lines look.
    public var format: LogFormat
  }

  /// The public listener.
  public var http: HTTP
  /// Where texts name a contact.
  public var operatorEmail: String?
  /// The operator's listener.
  public var admin: Admin
  /// The database.
  public var database: Database
  /// The key folder.
  public var keys: Keys
  /// Who may use the bouncer.
  public var bouncer: Bouncer
  /// Apple's service.
  public var apns: APNs
  /// Google's service.
  public var fcm: FCM
  /// Both services.
  public var providers: Providers
  /// How notifications are delivered.
  public var delivery: Delivery
  /// What is forgotten when.
  public var retention: Retention
  /// What the host application shows; without one there is no backend API.
  public var backendToken: String?
  /// The built-in chat-server side.
  public var server: Server
  /// The Nextcloud adapter.
  public var nextcloud: Nextcloud
  /// The log.
  public var log: Log

  /// Every key with its value in force, secrets redacted: for the log.
  public let effective: [(key: String, value: String)]

  /// Every key.
  public static var keys: [String] { Setting.all.map(\.key) }
}
