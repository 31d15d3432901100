internal import Crypto
package import Foundation
package import Providers
package import Registrations

/// A device that Nextcloud's push proxy sends to: one account in one app on one phone. Its key is an
/// identifier made by the account's server, together with the public key that the server signs with for the
/// user.
package struct NextcloudDevice: Sendable {
  /// The contents of a registration, as received.
  package struct Registration: Sendable, Hashable {
    /// The raw 64 bytes.
    package var identifier: [UInt8]
    /// The public key of the user whose server has signed the identifier: a SubjectPublicKeyInfo.
    package var userKey: [UInt8]
    /// The push token exactly as it was sent.
    package var token: String
    /// How servers identify the token, see ``NextcloudDevice/hash(ofToken:)``.
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

  /// The app that a token belongs to, and the provider that delivers to it.
  package struct Destination: Sendable, Hashable {
    /// The raw values are stored in the database.
    package enum Kind: Int64, Sendable, Hashable, CaseIterable {
      /// An APNs token, or an APNs and a PushKit token separated by a space.
      case apns = 1
      case fcm = 2
      /// A PushKit token alone, as Talk of 2018 to 2020 sends it.
      case pushKit = 3
    }

    package var kind: Kind
    /// Name of the app, for the operator.
    package var app: String
    /// The app's bundle id, or its Firebase project; nil for the default project.
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
  /// nil if the stored token does not open.
  package let token: String?
  package let tokenHash: [UInt8]
  package let destination: Destination
  /// Time of the last registration, in whole milliseconds.
  package let registeredAt: Date
  /// Whether a notification signed with its key has ever arrived.
  package let isUsed: Bool
  /// Time of the last registration or signed notification, to the day.
  package let seenAt: Date
  /// Since when its server has named another token than the stored one; nil if it does not.
  package let tokenDiffersSince: Date?
  /// The address that last registered it.
  package let owner: Owner

  /// Refers to this registration in a delivery.
  package var reference: RegistrationReference { .init(.nextcloud, id: id, registeredAt: registeredAt) }

  /// The SHA-512 of a token's UTF-8.
  static func hash(ofToken token: String) -> [UInt8] { Array(SHA512.hash(data: Data(token.utf8))) }
}
