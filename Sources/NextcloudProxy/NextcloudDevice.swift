internal import Crypto
package import Foundation
package import Providers
package import Registrations

/// A device that Nextcloud's push proxy sends to: one account in one app on one phone, known by an identifier
/// that the account's server has made, together with the key that the server signs with for its user.
package struct NextcloudDevice: Sendable {
  /// What a device is registered as, as it was told.
  package struct Registration: Sendable, Hashable {
    /// The raw 64 bytes.
    package var identifier: [UInt8]
    /// The public key of the user whose server has signed the identifier: a SubjectPublicKeyInfo.
    package var userKey: [UInt8]
    /// The push token exactly as it was sent.
    package var token: String
    /// As servers know the token, see ``NextcloudDevice/hash(ofToken:)``.
    package var tokenHash: [UInt8]
    package var destination: Destination

    package init(
      identifier: [UInt8], userKey: [UInt8], token: String, tokenHash: [UInt8], destination: Destination
    ) {
      self.identifier = identifier
      self.userKey = userKey
      self.token = token
      self.tokenHash = tokenHash
      self.destination = destination
    }
  }

  /// Whose app a token is of, and who takes notifications for it.
  package struct Destination: Sendable, Hashable {
    /// As the database keeps it.
    package enum Kind: Int64, Sendable, Hashable, CaseIterable {
      /// A token of APNs, or one of APNs and one of PushKit with a space between.
      case apns = 1
      case fcm = 2
      /// A token of PushKit alone, as Talk of 2018 to 2020 sends it.
      case pushKit = 3
    }

    package var kind: Kind
    /// The name of the app, for the operator.
    package var app: String
    /// The app's bundle id, or its Firebase project; nil is the default project.
    package var target: String?

    package init(_ kind: Kind, app: String, target: String?) {
      self.kind = kind
      self.app = app
      self.target = target
    }
  }

  package let id: Int64
  package let identifier: [UInt8]
  package let userKey: [UInt8]
  /// Nil if what is kept is damaged.
  package let token: String?
  package let tokenHash: [UInt8]
  package let destination: Destination
  /// When it was last registered, in whole milliseconds.
  package let registeredAt: Date
  /// Whether a notification signed by its key has ever come.
  package let isUsed: Bool
  /// When it was last registered, or such a notification came: to the day.
  package let seenAt: Date
  /// Since when its server names another token than the one that is kept; nil if it does not.
  package let tokenDiffersSince: Date?
  /// The address that has registered it last.
  package let owner: Owner

  /// What a delivery for it refers to.
  package var reference: RegistrationReference { .init(.nextcloud, id: id, registeredAt: registeredAt) }

  /// The SHA-512 of a token's UTF-8.
  static func hash(ofToken token: String) -> [UInt8] { Array(SHA512.hash(data: Data(token.utf8))) }
}
