public import Foundation

/// A device that Nextcloud's push proxy sends to: one account in one app on one phone, known by an identifier
/// that the account's server has made, together with the key that the server signs with for its user.
public struct NextcloudDevice: Sendable {
  /// What a device is registered as, as it was told.
  public struct Registration: Sendable, Hashable {
    /// The raw 64 bytes of the identifier.
    public var identifier: [UInt8]
    /// The public key of the user whose server has signed the identifier: a SubjectPublicKeyInfo.
    public var userKey: [UInt8]
    /// The push token exactly as it was sent.
    public var token: String
    /// The SHA-512 of the token's UTF-8, as servers know it.
    public var tokenHash: [UInt8]
    /// Where the token is good.
    public var destination: Destination

    /// A registration by its parts.
    public init(
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
  public struct Destination: Sendable, Hashable {
    /// What kind of token it is; also as the database keeps it.
    public enum Kind: Int64, Sendable, Hashable, CaseIterable {
      /// One of APNs, or one of APNs and one of PushKit with a space between.
      case apns = 1
      /// One of FCM.
      case fcm = 2
      /// One of PushKit, as Talk of 2018 to 2020 sends it.
      case pushKit = 3
    }

    /// What kind of token.
    public var kind: Kind
    /// The name of the app, for the operator.
    public var app: String
    /// The app's bundle id, or its Firebase project; nil is the default project.
    public var target: String?

    /// A destination by its parts.
    public init(_ kind: Kind, app: String, target: String?) {
      self.kind = kind
      self.app = app
      self.target = target
    }
  }

  /// Its row.
  public let id: Int64
  /// The raw 64 bytes of its identifier.
  public let identifier: [UInt8]
  /// The public key that notifications for it are signed with: a SubjectPublicKeyInfo.
  public let userKey: [UInt8]
  /// The push token exactly as it was sent; nil if what is kept is damaged.
  public let token: String?
  /// The SHA-512 of the token's UTF-8.
  public let tokenHash: [UInt8]
  /// Where the token is good.
  public let destination: Destination
  /// When it was last registered, in whole milliseconds.
  public let registeredAt: Date
  /// Whether a notification signed by its key has ever come.
  public let isUsed: Bool
  /// When it was last registered, or such a notification came: to the day.
  public let seenAt: Date
  /// Since when its server names another token than the one that is kept; nil if it does not.
  public let tokenDiffersSince: Date?

  /// What a delivery for it refers to.
  public var reference: RegistrationReference { .init(.nextcloud, id: id, registeredAt: registeredAt) }
}
