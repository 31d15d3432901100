package import Basics
package import Foundation
package import Platform
package import Providers
import Registrations

extension NextcloudProxyRoutes {
  /// The descriptions of its metrics.
  package static let metrics: [MetricDescription] = [
    .init(
      "push_bouncer_nextcloud_devices", .gauge, labels: ["app", "token_kind"],
      "Devices of the Nextcloud push proxy."),
    .init(
      "push_bouncer_nextcloud_devices_failing", .gauge, labels: ["app", "token_kind", "reason"],
      "Devices of the Nextcloud push proxy whose last notification was refused, by reason."),
    .init(
      "push_bouncer_nextcloud_devices_unverified_total", .counter,
      "Devices of the Nextcloud push proxy for which three notifications came within an hour that no key verifies that they are registered with; each counts once an hour."
    ),
  ]

  /// The push proxy that Nextcloud servers call.
  package func feature(_ devices: NextcloudDevices) -> Feature {
    var feature = Feature()
    feature.routes = { addRoutes(to: $0) }
    feature.gauges = [
      PolledGauge("push_bouncer_nextcloud_devices") {
        try await devices.counts().map {
          .init(Double($0.devices), labels: [("app", $0.app), ("token_kind", $0.kind.name)])
        }
      },
      PolledGauge("push_bouncer_nextcloud_devices_failing") {
        try await devices.counts().flatMap { count in
          count.failures.map { reason, number in
            .init(
              Double(number),
              labels: [("app", count.app), ("token_kind", count.kind.name), ("reason", reason)])
          }
        }
      },
    ]
    feature.tables = [
      {
        AdminTable(
          "Nextcloud devices by app",
          [.text("App"), .text("Tokens"), .number("Devices"), .failures("Failing")],
          otherwise: "No device yet.",
          rows: try await devices.counts().map { count in
            [
              .text(count.app), .text(count.kind.name), .number(count.devices),
              .number(count.failures.values.reduce(0, +)),
            ]
          })
      }
    ]
    return feature
  }
}

extension NextcloudProxySettings {
  /// Cleans up after devices, even if the push proxy has been switched off since.
  package func cleanup(_ devices: NextcloudDevices, now: @escaping @Sendable () -> Date) -> Feature {
    var feature = Feature()
    feature.removals = [
      Removal("unused Nextcloud devices removed") { [deviceRetention] in
        let now = now()
        return try await devices.removeUnused(
          since: now - deviceRetention, neverUsedSince: now - min(deviceRetention, RegistrationRoom.trial),
          limit: $0)
      }
    ]
    return feature
  }
}

extension NextcloudProxySettings {
  /// The checks made before the start.
  ///
  /// - Parameter credentials: reads the providers' credentials.
  package func checks(_ credentials: @escaping @Sendable () -> Credentials) -> [StartCheck] {
    guard isEnabled else { return [] }
    return [
      StartCheck("nextcloud apps") {
        let unserved = try NextcloudApps.configured(self).unserved(by: credentials())
        guard unserved.isEmpty else {
          return .warning(
            $0, "nextcloud.apps_file names apps that cannot be sent to: \(unserved.joined(separator: "; "))",
            advice: "put their keys there, or correct apns_topic or fcm_project, spelled as the app has it")
        }
        return .good($0, "every app is recognized by its User-Agent")
      }
    ]
  }
}

extension NextcloudApps {
  /// The built-in apps and the operator's own builds and brands.
  package static func configured(_ settings: NextcloudProxySettings) throws(Fault) -> NextcloudApps {
    var own: [NextcloudApp] = []
    if let file = settings.appsFile {
      let key = "nextcloud.apps_file"
      let bytes = try PrivateFile.contents(of: file, atMost: 4 << 20, key: key)
      do {
        own = try NextcloudApp.read(bytes)
      } catch {
        throw Fault(
          key: key, "names \(file): \(error.description)",
          advice: "correct it; Documentation/GettingStarted/NextcloudBrand.md shows one")
      }
    }
    do {
      return try NextcloudApps(own: own, default: settings.defaultApp)
    } catch {
      throw Fault(key: "nextcloud.default_app", error.description, advice: "name one of them, or none")
    }
  }
}
