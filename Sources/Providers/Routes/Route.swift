/// The way a push takes: one credential, one topic or project, one environment. Routes are kept
/// apart, so that a bad key or a slow provider concerns only its own.
public struct Route: Sendable, Hashable, CustomStringConvertible {
  /// Whose service.
  public enum Provider: String, Sendable, Hashable {
    case apns, fcm
  }

  /// Whose service.
  public let provider: Provider
  /// The name of the credential: its file's stem.
  public let credential: String
  /// The topic (APNs) or the project id (FCM).
  public let target: String

  /// A route by its parts.
  public init(provider: Provider, credential: String, target: String) {
    self.provider = provider
    self.credential = credential
    self.target = target
  }

  /// As it appears in logs: `apns:simulator org.example.chat`.
  public var description: String { "\(provider.rawValue):\(credential) \(target)" }
}
