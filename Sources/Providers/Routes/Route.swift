/// The way a push takes: one credential, one topic or project, one environment; or one host of Web Push. Routes are kept
/// apart, so that a bad key or a slow provider concerns only its own.
package struct Route: Sendable, Hashable, CustomStringConvertible {
  /// Whose service.
  package enum Provider: String, Sendable, Hashable, CaseIterable {
    case apns, fcm
    case webPush = "webpush"
  }

  /// Whose service.
  package let provider: Provider
  /// The name of the credential: its file's stem. Of Web Push the push service's host, with its port unless that is 443.
  package let credential: String
  /// The topic (APNs) or the project id (FCM); empty for Web Push.
  package let target: String

  /// A route by its parts.
  package init(provider: Provider, credential: String, target: String) {
    self.provider = provider
    self.credential = credential
    self.target = target
  }

  /// As it appears in logs: `apns:simulator org.example.chat`, `webpush:push.example.org`.
  package var description: String {
    if credential.isEmpty { return provider.rawValue }
    return target.isEmpty
      ? "\(provider.rawValue):\(credential)" : "\(provider.rawValue):\(credential) \(target)"
  }
}
