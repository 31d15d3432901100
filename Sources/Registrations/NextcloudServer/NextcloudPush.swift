public import Foundation

/// A push to one phone, made and signed, on its way to the phone's proxy.
public struct NextcloudPush: Sendable, Hashable {
  /// What it tells the phone; as much as decides which pushes make others idle.
  public enum Kind: Sendable, Hashable {
    /// A notification of this number.
    case notification(nid: Int64)
    /// That some notifications are gone.
    case deletion
    /// That all are.
    case deletionOfAll
  }

  /// The row of the phone's registration.
  public var registration: Int64
  /// When that had last been registered.
  public var registeredAt: Date
  /// As proxies know the phone.
  public var deviceIdentifier: String
  /// The proxy, without slashes at its end.
  public var proxy: String
  /// What it tells.
  public var kind: Kind
  /// JSON as it goes over the wire (`Documentation/Protocols/Nextcloud.md` 3.4).
  public var entry: String
  /// Where it is kept, if it is.
  public internal(set) var place: Place?

  /// A push that waits in the database, under its sender's lease.
  public struct Place: Sendable, Hashable {
    /// Its row.
    public let id: Int64
    /// How often it was tried, this time included; also tells whose it is.
    public let attempts: Int
    /// When it is given up.
    public let expiresAt: Date
  }

  /// A push that is kept nowhere yet.
  public init(
    for registration: NextcloudRegistration, kind: Kind, entry: String
  ) {
    self.registration = registration.id
    registeredAt = registration.registeredAt
    deviceIdentifier = registration.description.deviceIdentifier
    proxy = registration.description.proxyURL
    self.kind = kind
    self.entry = entry
  }

  init(
    registration: Int64, registeredAt: Date, deviceIdentifier: String, proxy: String, kind: Kind,
    entry: String, place: Place
  ) {
    self.registration = registration
    self.registeredAt = registeredAt
    self.deviceIdentifier = deviceIdentifier
    self.proxy = proxy
    self.kind = kind
    self.entry = entry
    self.place = place
  }
}
