package import Providers

/// The protocol through which a registration came. The raw values are stored in the database (`wire`).
package enum Wire: Int64, Sendable, Hashable, CaseIterable, CustomStringConvertible {
  /// Zulip's bouncer: an app that gets end-to-end encrypted notifications.
  case e2ee = 1
  /// Zulip's bouncer: an old app, which gets unencrypted notifications.
  case legacy = 2
  /// The Nextcloud push proxy.
  case nextcloud = 3
  /// A Web Push subscription of a user of the Nextcloud server side.
  case nextcloudWebPush = 4
  /// The Web Push gateway.
  case gateway = 5

  /// - Parameter name: as ``description`` has it.
  package init?(name: some StringProtocol) {
    guard let wire = Self.allCases.first(where: { $0.description == name }) else { return nil }
    self = wire
  }

  /// As people type and read it, under the name of `kind`: in commands, JSON, metrics and the log.
  package var description: String {
    switch self {
    case .e2ee: "e2ee"
    case .legacy: "legacy"
    case .nextcloud: "nextcloud"
    case .nextcloudWebPush: "nextcloud_webpush"
    case .gateway: "webpush_gateway"
    }
  }

  /// Whether anybody may register here, without an account or a chat server. Such a device has limits of its own, and what
  /// goes wrong with it is not the route's fault.
  package var isOpen: Bool {
    switch self {
    case .nextcloud, .gateway: true
    case .e2ee, .legacy, .nextcloudWebPush: false
    }
  }

  /// For SQL: its number.
  package var sql: String { "\(rawValue)" }
  /// For SQL: the numbers of the wires that are ``isOpen``.
  package static let open = allCases.filter(\.isOpen).map(\.sql).joined(separator: ", ")
  /// For SQL: the numbers of Zulip's.
  package static let zulip = "\(e2ee.sql), \(legacy.sql)"
}

/// Whose token a registration has. The raw values are stored in the database (`kind`).
package enum TokenKind: Int64, Sendable, Hashable, CaseIterable {
  case apns = 1
  /// FCM's, or a Web Push subscription, which Zulip's apps register as such a token.
  case fcm = 2
  /// PushKit's alone.
  case pushKit = 3
  /// Only the bouncer where it lives knows.
  case elsewhere = 4

  /// The provider of its tokens, without those that apps register as such.
  package var provider: Route.Provider {
    switch self {
    case .apns, .pushKit: .apns
    case .fcm: .fcm
    case .elsewhere: .elsewhere
    }
  }

  /// For SQL: its number.
  package var sql: String { "\(rawValue)" }
}
