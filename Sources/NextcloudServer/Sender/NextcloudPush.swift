package import Foundation
package import Registrations

/// A push to one phone, made and signed, on its way to the phone's proxy.
package struct NextcloudPush: Sendable, Hashable {
  /// What it tells the phone; as much as decides which pushes make others idle.
  package enum Kind: Sendable, Hashable {
    /// A notification of this number.
    case notification(nid: Int64)
    /// That some notifications are gone.
    case deletion
    /// That all are.
    case deletionOfAll
  }

  /// The row of the phone's registration.
  package var registration: Int64
  /// When that had last been registered.
  package var registeredAt: Date
  /// As proxies know the phone.
  package var deviceIdentifier: String
  /// The proxy, without slashes at its end.
  package var proxy: String
  /// What it tells.
  package var kind: Kind
  /// JSON as it goes over the wire (`Documentation/Protocols/Nextcloud.md` 3.4).
  package var entry: String
  /// Under which it waits in the database, if it does.
  package internal(set) var lease: LeasedQueue.Lease?

  /// A push that is kept nowhere yet.
  package init(
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
    entry: String, lease: LeasedQueue.Lease
  ) {
    self.registration = registration
    self.registeredAt = registeredAt
    self.deviceIdentifier = deviceIdentifier
    self.proxy = proxy
    self.kind = kind
    self.entry = entry
    self.lease = lease
  }
}
