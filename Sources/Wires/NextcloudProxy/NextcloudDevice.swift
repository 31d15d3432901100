import Basics
import Crypto
import Foundation
import HTTPClient
import Providers
import Registrations

/// A device that Nextcloud's push proxy sends to: one account in one app on one phone. Its key is an
/// identifier made by the account's server, together with the public key that the server signs with for the
/// user.
package struct NextcloudDevice: Sendable {
  /// The contents of a registration, as received.
  struct Registration: Sendable, Hashable {
    /// The raw 64 bytes.
    var identifier: [UInt8]
    /// The public key of the user whose server has signed the identifier: a SubjectPublicKeyInfo.
    var userKey: [UInt8]
    /// The push token exactly as it was sent.
    var token: String
    /// The hash by which servers identify the token (``NextcloudDevice/hash(ofToken:)``).
    var tokenHash: [UInt8]
    var destination: Destination
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

      /// Its name in metrics, which `Documentation/JSON.md` has as well.
      var name: String {
        switch self {
        case .apns: "apns"
        case .fcm: "fcm"
        case .pushKit: "pushkit"
        }
      }

      /// The form of the token for notifications.
      var ofToken: PushToken.Kind {
        switch self {
        case .apns, .pushKit: .apns
        case .fcm: .fcm
        }
      }
    }

    var kind: Kind
    /// Name of the app, for the operator.
    var app: String
    /// The app's bundle id, or its Firebase project; nil for the default project.
    var target: String?
  }

  /// Refers to this registration in a delivery.
  let reference: RegistrationReference
  let identifier: [UInt8]
  let userKey: [UInt8]
  /// The push token; nil if the stored one does not open.
  let token: String?
  let tokenHash: [UInt8]
  let destination: Destination
  /// Whether a notification signed with its key has ever arrived.
  let isUsed: Bool
  /// Time of the last registration or signed notification, to the day.
  let seenAt: Date
  /// The time since when its server has named another token than the stored one; nil if it does not.
  let tokenDiffersSince: Date?
  /// The environment of APNs that has the token, if that is known.
  let environment: APNsCredential.Environment?
  /// The address that last registered it.
  let owner: Owner

  var id: Int64 { reference.id }

  /// The SHA-512 of a token's UTF-8.
  static func hash(ofToken token: String) -> [UInt8] { Array(SHA512.hash(data: Data(token.utf8))) }
}
