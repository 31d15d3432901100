package import Basics
package import Foundation
package import Platform
import SQL

extension NextcloudServerRoutes {
  /// The descriptions of its metrics.
  package static let metrics: [MetricDescription] = [
    .init(
      "push_bouncer_nextcloud_registrations", .gauge, "Phones of the Nextcloud server side's users."),
    .init(
      "push_bouncer_nextcloud_pushes_pending", .gauge,
      "Pushes of the Nextcloud server side that no push proxy has accepted yet."),
  ]

  /// The server side for Nextcloud's apps.
  package var feature: Feature {
    let registrations = sender.registrations
    let queue = sender.pushes.queue
    var feature = Feature()
    feature.routes = { addRoutes(to: $0) }
    feature.gauges = [
      .single("push_bouncer_nextcloud_registrations") { Double(try await registrations.count()) },
      .single("push_bouncer_nextcloud_pushes_pending") { Double(try await queue.count()) },
    ]
    feature.work = [{ [sender] in await sender.run() }]
    feature.queues = [queue.bringForward]
    return feature
  }
}

extension NextcloudServerSettings {
  /// Cleans up after users' notifications, even if the server side has been switched off since.
  package func cleanup(
    _ notifications: NextcloudNotifications, now: @escaping @Sendable () -> Date
  ) -> Feature {
    var feature = Feature()
    feature.removals = [
      Removal { [notificationRetention] in
        try await notifications.removeOld(before: now() - notificationRetention, limit: $0)
      }
    ]
    return feature
  }
}

extension NextcloudServerSettings {
  /// The checks made before the start.
  ///
  /// - Parameter hasUsers: whether a host application adds users, who can sign in.
  package func checks(hasUsers: Bool, now: @escaping @Sendable () -> Date) -> [StartCheck] {
    let roots = StartCheck.file("nextcloud.proxies_ca_file", proxiesCAFile, now: now)
    // Without the backend API or a file there is no built-in Nextcloud server that anybody signs in at.
    guard hasUsers || capabilitiesFile != nil else { return roots }
    let capabilities = StartCheck("nextcloud capabilities") {
      let added = try AddedCapabilities.configured(self)
      let talk =
        added.includesTalk
        ? "" : "; without spreed.features Talk refuses to sign in, unless your build does not check them"
      return .good(
        $0,
        added.names.isEmpty
          ? "nextcloud.capabilities_file adds none\(talk)"
          : "\(capabilitiesFile ?? "") adds \(added.names.joined(separator: ", "))\(talk)")
    }
    return roots + [capabilities]
  }

  /// The readers of the service's public address in this part, besides administrators; nil for none.
  package var publicURLReaders: String? {
    defaultProxy == nil ? "Nextcloud's apps that name no push proxy (nextcloud.default_proxy)" : nil
  }
}

extension AddedCapabilities {
  /// The capabilities that `nextcloud.capabilities_file` adds; none if it is not set.
  package static func configured(_ settings: NextcloudServerSettings) throws(Fault) -> AddedCapabilities {
    guard let file = settings.capabilitiesFile else { return AddedCapabilities() }
    let key = "nextcloud.capabilities_file"
    let bytes = try PrivateFile.contents(of: file, atMost: maximumBytes, key: key)
    do {
      return try AddedCapabilities(bytes)
    } catch {
      throw Fault(
        key: key, "names \(file), which \(error.description)",
        advice: "correct it; Documentation/GettingStarted/OwnChat.md shows one")
    }
  }
}
