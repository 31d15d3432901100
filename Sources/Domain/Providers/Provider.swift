package import Foundation
package import HTTPClient

extension Route {
  /// The list of providers. What is common asks ``definition`` of what concerns one of them, and names none.
  package enum Provider: String, Sendable, Hashable, CaseIterable {
    case apns, fcm
    case webPush = "webpush"
    /// The upstream bouncer, for the devices of an app that this service has no credentials for.
    case upstream

    package var definition: any PushProvider.Type {
      switch self {
      case .apns: APNs.self
      case .fcm: FCM.self
      case .webPush: WebPush.self
      case .upstream: Upstream.self
      }
    }
  }

  /// See ``PushProvider/hasHosts``.
  package var isOfHost: Bool { provider.definition.hasHosts }
}

/// What a provider's folder says of it.
package protocol PushProvider: Sendable {
  // In sentences.

  /// The subject of a sentence: `Apple's push service`.
  static var service: String { get }
  /// The target of pushes that name none; empty where all name one.
  static var namelessTarget: String { get }
  /// A clause that says what a target lacks that no credential serves.
  ///
  /// - Parameters:
  ///   - isSeveral: whether several targets lack it.
  ///   - environment: of APNs, if the target lacks it there only.
  static func lack(isSeveral: Bool, in environment: APNsCredential.Environment?) -> String
  /// What the operator can do about it: a clause.
  static func advice(forLackIn environment: APNsCredential.Environment?) -> String

  // Its tokens and credentials.

  /// What its tokens begin with, if apps register them as tokens of FCM.
  static var tokenPrefix: String? { get }

  /// Its credential files, in a folder of its name below `Keys`; nil if it has none.
  static var credential: (any ProviderCredential.Type)? { get }
  /// See ``Credentials/reconcile(defaultProject:)``.
  static func reconcile(_ credentials: inout Credentials, defaultProject: String?) -> [CredentialProblem]

  // What its answers mean.

  /// The reasons for what comes of its pushes, with a heading for each table.
  static var tables: [(heading: String, rows: [Reason.Row])] { get }
  /// Those of them whose names are the provider's.
  static var named: [Reason.Row] { get }
  /// The outcomes that its routes usually have, by label, besides successes, tokens that end, and missing connections.
  static var usualOutcomes: [String: [Reason]] { get }
  static func outcome(of answer: ProviderResponse, now: () -> Date) -> Outcome
  /// What to do at once after an answer.
  static func remedy(after outcome: Outcome) -> Remedy

  // Its routes.

  /// The schemes that its address may have, and what to say of another one.
  static var endpointForm: (schemes: [String], advice: String) { get }
  /// Whether its routes are hosts, which untrusted devices name: there may be any number, and one that does not work concerns
  /// only those who chose it. They are counted as one route.
  static var hasHosts: Bool { get }
  /// Whether the targets of its routes are apps.
  static var targetsApps: Bool { get }
  /// Whether it delivers to a device only at a limited pace.
  static var limitsDevices: Bool { get }
  /// Whether it asks for long pauses while it is out of order.
  static var asksForLongPauses: Bool { get }
}

extension PushProvider {
  package static var namelessTarget: String { "" }
  package static var tokenPrefix: String? { nil }
  package static var credential: (any ProviderCredential.Type)? { nil }
  package static func reconcile(
    _ credentials: inout Credentials, defaultProject: String?
  ) -> [CredentialProblem] { [] }
  package static var named: [Reason.Row] { [] }
  package static func remedy(after outcome: Outcome) -> Remedy { Remedy() }
  package static var endpointForm: (schemes: [String], advice: String) {
    (["http", "https"], "must be an http or https URL")
  }
  package static var hasHosts: Bool { false }
  package static var targetsApps: Bool { false }
  package static var limitsDevices: Bool { false }
  package static var asksForLongPauses: Bool { false }
}
