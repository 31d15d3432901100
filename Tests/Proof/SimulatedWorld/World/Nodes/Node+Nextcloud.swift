import Delivery
import Foundation
import Logging
import NextcloudProxy
import Operator
import Registrations
import SQL
import Sealing

extension Node {
  /// The file in which the node's detector of lost databases keeps its record.
  var storeRecord: URL {
    FileManager.default.temporaryDirectory.appending(
      path: "simulated-world-\(ProcessInfo.processInfo.processIdentifier)-\(name.suffix(1)).json")
  }

  /// The push proxy, where the world has a Nextcloud server, stock or built-in.
  func nextcloudProxy(
    _ settings: Configuration, database: any Database, storageKey: StorageKey, recorder: RegistrationStore,
    room: RegistrationRoom, deliverer: Deliverer, lossDetector: StoreLossDetector,
    now: @escaping @Sendable () -> Date, logger: Logger
  ) -> PushProxy {
    PushProxy(
      settings.nextcloudProxy, http: settings.http,
      devices: NextcloudDevices(database: database, storageKey: storageKey, now: now), recorder: recorder,
      room: room, deliverer: deliverer, lossDetector: lossDetector, logger: logger)
  }
}
