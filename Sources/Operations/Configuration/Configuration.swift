package import Foundation
package import HTTP
package import Logging
package import Registrations
package import SQL

/// The configuration as the service uses it.
package struct Configuration: Sendable {
  /// `http.tls`: with both files the public listener speaks TLS.
  package struct TLS: Sendable {
    /// The certificate chain in PEM.
    var certificateFile: String
    /// The key of the first certificate in PEM.
    package var keyFile: String
  }

  /// `http`: the public listener.
  package struct HTTP: Sendable {
    /// Its address.
    package var host: String
    /// Its port; 0 picks a free one.
    package var port: Int
    /// Its certificate, if it speaks TLS.
    package var tls: TLS?
    /// Whose `X-Forwarded-For` is believed.
    package var trustedProxies: [ClientAddress.Network]
    /// The address by which the outside reaches this service, without a slash at its end; nil: host and port.
    package var publicURL: String?
    /// How many connections callers may have at a time; nil: as the descriptor limit allows.
    package var maxConnections: Int?
    /// How many of them one address may have.
    package var maxConnectionsPerAddress: Int
    /// Larger bodies are refused.
    package var maxBodyBytes: Int
    /// How many bytes of bodies may be in memory at a time.
    package var maxBytesInFlight: Int
    /// Calls without credentials per client address; nil is no limit.
    package var rateLimitPerAddress: RateLimit?
  }

  /// `admin`: the operator's listener.
  package struct Admin: Sendable {
    /// Its address.
    package var host: String
    /// Its port; 0 picks a free one.
    package var port: Int
    /// Where set, callers of the metrics have to show it.
    package var token: String?
  }

  /// `database`
  package struct Database: Sendable {
    /// Where the database is.
    package var url: DatabaseURL
  }

  /// `keys`
  package struct Keys: Sendable {
    /// The folder of keys and credentials.
    package var directory: String
  }

  /// `bouncer`: who may use it, and how often.
  package struct Bouncer: Sendable {
    /// Who may register as a chat server.
    package enum Registration: String, Sendable, CaseIterable {
      /// `closed`: servers that the operator has let in; `open`: everybody.
      case closed, open
    }

    /// Who may register as a chat server.
    package var registration: Registration
    /// Hostnames that may register although registration is closed.
    package var allowedHostnames: [HostnamePattern]
    /// Whether a new server must prove that its hostname is its own.
    package var verifyHostnames: Bool
    /// A trust root for calls to chat servers.
    package var verifyCAFile: String?
    /// Whether chat servers may have private addresses.
    package var verifyAllowPrivateAddresses: Bool
    /// Calls per chat server, but for notifications and registrations; nil is no limit.
    package var rateLimitPerServer: RateLimit?
    /// Notifications of a chat server that are sent at once, the rest at that pace; nil is no limit.
    package var notificationsPerServer: RateLimit?
  }

  /// `apns`
  package struct APNs: Sendable {
    /// Instead of Apple's hosts.
    package var endpoint: URL?
  }

  /// `fcm`
  package struct FCM: Sendable {
    /// Google's, or a simulator's.
    package var endpoint: URL?
    /// The stem of the file with the project of messages that name none.
    package var defaultProject: String?
  }

  /// `providers`: for all.
  package struct Providers: Sendable {
    /// A trust root besides the system's.
    package var caFile: String?
    /// The HTTP CONNECT proxy for outgoing calls.
    package var proxy: URL?
  }

  /// `delivery`
  package struct RegisteredPush: Sendable {
    /// How long a notify request waits for the providers.
    package var deadline: Duration
    /// After this an undelivered notification is given up.
    package var maxAge: Duration
  }

  /// `retention`
  package struct Retention: Sendable {
    /// Days after which expired registrations are removed.
    var expiredDays: Int
    /// Days after which the Nextcloud proxy forgets a device that nobody renews or sends to.
    var nextcloudDays: Int
    /// Days for which Nextcloud's apps can fetch a notification.
    var notificationsDays: Int

    /// ``expiredDays`` in seconds.
    var expired: TimeInterval { TimeInterval(expiredDays) * 86_400 }
    /// `nextcloudDays` in seconds.
    package var nextcloud: TimeInterval { TimeInterval(nextcloudDays) * 86_400 }
    /// `notificationsDays` in seconds.
    package var notifications: TimeInterval { TimeInterval(notificationsDays) * 86_400 }
  }

  /// `server`: the built-in chat-server side.
  package struct Server: Sendable {
    /// The bouncer that it registers devices with.
    package enum Bouncer: Sendable, Hashable {
      /// This process.
      case local
      /// None: there are no push notifications then.
      case off
      /// Another bouncer at this address, where it is known by `orgID` and `orgKey`.
      case remote(URL)
    }

    /// The name of a realm that is made without one.
    package var name: String
    /// The address of such a realm, without a slash at its end.
    package var url: String
    /// The bouncer that it registers devices with.
    package var bouncer: Bouncer
    /// Its id at another bouncer; there with `remote`.
    package var orgID: String?
    /// Its key at another bouncer; there with `remote`.
    package var orgKey: String?
    /// Calls per user; nil is no limit.
    package var rateLimitPerUser: RateLimit?
    /// Whether notifications that take others away reach iPhones as alerts, for the app's extension.
    package var alertsOnRemoval: Bool
  }

  /// `nextcloud`
  package struct Nextcloud: Sendable {
    /// How notifications are padded for a phone's key.
    package enum Padding: String, Sendable, CaseIterable {
      /// As Nextcloud 35 does.
      case OAEP
      /// PKCS#1 v1.5, as Nextcloud 31 and older do.
      case PKCS1
    }

    /// Whether it is switched on.
    package var isEnabled: Bool
    /// The instance's address, without a slash at its end.
    package var url: String
    /// Where apps and browsers find it: the same if it is configured; nil: this service's own address.
    package var address: String?
    /// The push proxy of clients that name none; nil is this service's own.
    package var defaultProxy: String?
    /// Whether push proxies may be local, and without TLS.
    package var allowsLocalProxies: Bool
    /// A trust root for push proxies.
    package var proxiesCAFile: String?
    /// How notifications are padded for a phone's key.
    package var padding: Padding
    /// Whether its users' apps may subscribe to Web Push.
    package var webPush: Bool
    /// Whether those may that have signed in without an app password, too.
    package var webPushBrowsers: Bool
    /// A JSON file with own builds and brands.
    package var appsFile: String?
    /// The name of the app that an unknown one is taken for; nil: unknown apps are refused.
    package var defaultApp: String?
    /// How long the push proxy lets a server wait for the providers.
    package var deadline: Duration
    /// Calls of the push proxy per client address, on each of its endpoints; nil is no limit.
    package var rateLimitPerAddress: RateLimit?
    /// Devices that the push proxy did not know before, per client address; nil is no limit.
    package var newDevicesPerAddress: RateLimit?
    /// The push proxy that gets the subscription key.
    package var subscriptionServer: String
    /// The key that it gets.
    package var subscriptionKey: String?
  }

  /// `log`
  package struct Log: Sendable {
    /// The least level that is logged.
    package var level: Logger.Level
    /// How lines look.
    package var format: LogFormat
  }

  /// The public listener.
  package var http: HTTP
  /// The contact that error texts name.
  package var operatorEmail: String?
  /// The operator's listener.
  package var admin: Admin
  /// The database.
  package var database: Database
  /// The key folder.
  package var keys: Keys
  /// Who may use the bouncer.
  package var bouncer: Bouncer
  /// Apple's service.
  package var apns: APNs
  /// Google's service.
  package var fcm: FCM
  /// All push services.
  package var providers: Providers
  /// Web Push.
  package var webPush: WebPush
  /// How notifications are delivered.
  package var delivery: RegisteredPush
  /// How long things are kept.
  package var retention: Retention
  /// The token that the host application shows; without one there is no backend API.
  package var backendToken: String?
  /// The built-in chat-server side.
  package var server: Server
  /// The Nextcloud adapter.
  package var nextcloud: Nextcloud
  /// The log.
  package var log: Log

  /// Every key with its value in force, secrets redacted: for the log.
  package let effective: [(key: String, value: String)]
  /// Those of them that are not as they would be without anybody's word.
  package let changed: [(key: String, value: String)]
  /// The file that was read; nil if there was none.
  package let file: String?

  /// Every key.
  package static var keys: [String] { Setting.all.map(\.key) }

  /// A key as a person is told of it.
  package struct KeyHelp: Sendable {
    /// `http.port`
    package let key: String
    /// Its default; empty if it has none.
    package let standard: String
    /// What it is.
    package let help: String
    /// The values that it takes, if they are few.
    package let choices: [String]
  }

  /// Every key, in the order of the sample file.
  package static var keyHelp: [KeyHelp] {
    let choices = [
      "bouncer.registration": Bouncer.Registration.allCases.map(\.rawValue),
      "log.level": Logger.Level.allCases.map(\.rawValue), "log.format": LogFormat.allCases.map(\.rawValue),
    ]
    return Setting.all.map { setting in
      KeyHelp(
        key: setting.key, standard: setting.standard, help: setting.help,
        choices: choices[setting.key]
          ?? (["true", "false"].contains(setting.standard) ? ["true", "false"] : []))
    }
  }
}
