package import Foundation
package import Sealing

/// A device that gets end-to-end encrypted notifications (`Documentation/Protocols/Zulip.md` 1.3). There
/// is one per token and realm, shared by all accounts of the realm on that device.
package struct E2EERegistration: Sendable {
  /// Its row.
  package let id: Int64
  /// How chat servers call its token.
  package let tokenID: TokenID
  /// The token.
  package let token: PushToken
  /// The app's bundle id; there is always one for APNs.
  package let iosAppID: String?
  /// When it was last registered, in whole milliseconds.
  package let registeredAt: Date

  /// A registration by its parts.
  package init(id: Int64, tokenID: TokenID, token: PushToken, iosAppID: String?, registeredAt: Date) {
    self.id = id
    self.tokenID = tokenID
    self.token = token
    self.iosAppID = iosAppID
    self.registeredAt = registeredAt
  }

  /// What a delivery for it refers to.
  package var reference: RegistrationReference { .init(.e2ee, id: id, registeredAt: registeredAt) }
}
