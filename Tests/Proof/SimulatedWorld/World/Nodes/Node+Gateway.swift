import Delivery
import Foundation
import Logging
import Operator
import Registrations
import SQL
import Sealing
import WebPushGateway

extension Node {
  /// The Web Push gateway.
  func gateway(
    _ settings: Configuration, database: any Database, storageKey: StorageKey, room: RegistrationRoom,
    deliverer: Deliverer,
    lossDetector: StoreLossDetector, now: @escaping @Sendable () -> Date, logger: Logger
  ) -> WebPushGateway {
    WebPushGateway(
      settings.gateway, http: settings.http, publicURL: { Gateway.address }, database: database,
      storageKey: storageKey, room: room,
      keyring: { BouncerKeyring([.init(pair: Self.keyPair, state: .active)]) }, deliverer: deliverer,
      lossDetector: lossDetector, now: now, logger: logger)
  }
}
