public import Foundation
public import Logging
public import SQL
public import Wire

/// The configuration as the service uses it. Its keys, defaults and meanings stand in ``Setting``.
public struct Configuration: Sendable {
  public struct TLS: Sendable {
    public var certificateFile: String
    public var keyFile: String
  }

  public struct HTTP: Sendable {
    public var host: String
    public var port: Int
    public var tls: TLS?
    public var trustedProxies: [String]
    /// Without a slash at its end.
    public var publicURL: String?
    public var maxBodyBytes: Int
    public var rateLimitPerAddress: RateLimit?
  }

  public struct Admin: Sendable {
    public var host: String
    public var port: Int
    public var token: String?
  }

  public struct Database: Sendable {
    public var url: DatabaseURL
  }

  public struct Keys: Sendable {
    public var directory: String
  }

  public struct Bouncer: Sendable {
    public enum Registration: String, Sendable, CaseIterable {
      case closed, open
    }

    public var registration: Registration
    public var allowedHostnames: [String]
    public var verifyEmailDomain: Bool
    public var verifyCAFile: String?
    public var verifyAllowPrivateAddresses: Bool
    public var rateLimitPerServer: RateLimit?
  }

  public struct APNs: Sendable {
    public var endpoint: URL?
  }

  public struct FCM: Sendable {
    public var endpoint: URL?
    public var defaultProject: String?
  }

  public struct Providers: Sendable {
    public var caFile: String?
    public var proxy: URL?
  }

  public struct Delivery: Sendable {
    public var deadline: Duration
    public var maxAge: Duration
  }

  public struct Retention: Sendable {
    public var expiredDays: Int
  }

  public struct Log: Sendable {
    public var level: Logger.Level
    public var format: LogFormat
  }

  public var http: HTTP
  public var operatorEmail: String?
  public var admin: Admin
  public var database: Database
  public var keys: Keys
  public var bouncer: Bouncer
  public var apns: APNs
  public var fcm: FCM
  public var providers: Providers
  public var delivery: Delivery
  public var retention: Retention
  public var log: Log

  /// Every key with its value in force, secrets redacted: for the log.
  public let effective: [(key: String, value: String)]

  /// Every key.
  public static var keys: [String] { Setting.all.map(\.key) }
}
