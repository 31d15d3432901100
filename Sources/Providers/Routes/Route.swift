/// The way a push takes: one credential, one topic or project, one environment. Routes are kept
/// apart, so that a bad key or a slow provider concerns only its own.
package struct Route: Sendable, Hashable, CustomStringConvertible {
  /// Whose service.
  package enum Provider: String, Sendable, Hashable {
    case apns, fcm
  }

  /// Whose service.
  package let provider: Provider
  /// The name of the credential: its file's stem.
  package let credential: String
  /// The topic (APNs) or the project id (FCM).
  package let target: String

  /// A route by its parts.
  package init(provider: Provider, credential: String, target: String) {
    self.provider = provider
    self.credential = credential
    self.target = target
  }

  /// As it appears in logs: `apns:simulator org.example.chat`.
  package var description: String { "\(provider.rawValue):\(credential) \(target)" }
}
