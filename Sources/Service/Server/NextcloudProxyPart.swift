import Basics
import Delivery
import HTTP
import NextcloudProxy
import Operator
import Platform
import Providers
import Registrations
import Sealing

/// The push proxy that Nextcloud servers call, and its apps.
struct NextcloudProxyPart {
  let proxy: PushProxy
  let apps: NextcloudApps
  private let devices: NextcloudDevices

  var feature: Feature { NextcloudProxyRoutes(proxy).feature(devices) }

  init(_ core: Core) throws {
    let configuration = core.configuration
    apps = try NextcloudApps.configured(configuration.nextcloudProxy)
    devices = Self.devices(core)
    proxy = PushProxy(
      configuration.nextcloudProxy, http: configuration.http, apps: apps, devices: devices,
      recorder: core.store.registrations, room: core.room, deliverer: core.deliverer,
      lossDetector: core.lossDetector,
      logger: core.logger)
  }

  /// Cleans up after it, even if it has been switched off since.
  static func cleanup(_ core: Core) -> Feature {
    core.configuration.nextcloudProxy.cleanup(devices(core), now: core.now)
  }

  private static func devices(_ core: Core) -> NextcloudDevices {
    NextcloudDevices(database: core.store.database, storageKey: core.store.storageKey, now: core.store.now)
  }
}
