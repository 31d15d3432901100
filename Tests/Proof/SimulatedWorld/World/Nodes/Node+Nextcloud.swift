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
    deliverer: Deliverer, now: @escaping @Sendable () -> Date, isClockTrusted: @escaping @Sendable () -> Bool,
    logger: Logger
  ) -> (proxy: PushProxy, lossDetector: StoreLossDetector) {
    let devices = NextcloudDevices(database: database, storageKey: storageKey, now: now)
    let lossDetector = StoreLossDetector(
      file: storeRecord, database: database, now: now, isClockTrusted: isClockTrusted, logger: logger)
    let proxy = PushProxy(
      settings.nextcloudProxy, http: settings.http, devices: devices, recorder: recorder,
      deliverer: deliverer, lossDetector: lossDetector,
      logger: logger)
    return (proxy, lossDetector)
  }
}
