package import Foundation
internal import HTTP
import Logging
import NextcloudProxy
import NextcloudServer
package import Operator
package import Platform
import Settings
internal import ZulipServer

extension StartCheck {
  /// What `doctor` knows about a service that already runs with the same configuration: whether it does, since its
  /// ports are in use then, which is not a fault; and the address of the socket that systemd holds for it, such as
  /// `127.0.0.1:8080`, if there is one.
  package typealias Service = (isServing: Bool, heldAddress: String?)

  /// All checks that `serve` makes before it starts.
  ///
  /// - Parameter service: finds out whether a service is running already, for `doctor`.
  package static func all(
    _ configuration: Configuration, sockets: PassedSockets = PassedSockets(),
    descriptors: DescriptorLimit = .raised(), visit: DatabaseVisit,
    now: @escaping @Sendable () -> Date = { Date() },
    service: (@Sendable () async -> Service)? = nil
  ) -> [StartCheck] {
    let (http, admin) = (configuration.publicAddress(sockets), configuration.adminAddress(sockets))
    let listeners = [
      StartCheck("http") {
        let service = await service?()
        if let held = service?.heldAddress {
          try http.check(held: held)
          return .good($0, "systemd holds \(held), also while the service restarts")
        }
        if service?.isServing == true {
          return .warning(
            $0,
            """
            push-bouncer serves already, and nothing holds port \(http.port) while it restarts: a chat server that is \
            refused a connection then loses its notification
            """,
            advice: """
              let systemd hold it: systemctl enable push-bouncer, then systemctl restart push-bouncer; \
              Documentation/Installation.md says what does the same without the package
              """)
        }
        try http.check()
        return .good($0, "port \(http.port) of \(http.host) is free")
      },
      StartCheck("admin") {
        do {
          try admin.check()
        } catch {
          guard await service?().isServing == true else { throw error }
          return .skipped($0, "push-bouncer serves already, and listens on port \(admin.port)")
        }
        guard !admin.collides(with: http) else {
          throw Fault(
            key: "admin.port", "names port \(admin.port), and so does http.port",
            advice: "choose another one for either")
        }
        return .good($0, "port \(admin.port) of \(admin.host) is free")
      },
    ]
    return listeners + basics(configuration, descriptors: descriptors, visit: visit, now: now)
      + nextcloud(configuration, now: now)
  }

  private static func nextcloud(
    _ configuration: Configuration, now: @escaping @Sendable () -> Date
  ) -> [StartCheck] {
    let settings = configuration.nextcloudServer
    guard configuration.nextcloudProxy.isEnabled else { return [] }
    let apps = StartCheck("nextcloud apps") {
      let folder = KeyFolder(
        directory: configuration.keys.directory,
        logger: Logger(label: "check") { _ in SwiftLogNoOpLogHandler() })
      let unserved = try NextcloudApps.configured(configuration.nextcloudProxy).unserved(
        by: folder.load().credentials)
      guard unserved.isEmpty else {
        return .warning(
          $0, "nextcloud.apps_file names apps that cannot be sent to: \(unserved.joined(separator: "; "))",
          advice: "put their keys there, or correct apns_topic or fcm_project, spelled as the app has it")
      }
      return .good($0, "every app can be told by its name")
    }
    // Without the backend API or a file there is no built-in Nextcloud server that anybody signs in at.
    let isServer = configuration.backend.token != nil || settings.capabilitiesFile != nil
    let capabilities = StartCheck("nextcloud capabilities") {
      let added = try AddedCapabilities.configured(settings)
      let talk =
        added.includesTalk
        ? "" : "; without spreed.features Talk refuses to sign in, unless your build does not check them"
      return .good(
        $0,
        added.names.isEmpty
          ? "nextcloud.capabilities_file adds none\(talk)"
          : "\(settings.capabilitiesFile ?? "") adds \(added.names.joined(separator: ", "))\(talk)")
    }
    return [
      file("nextcloud.proxies_ca_file", settings.proxiesCAFile, now: now), apps,
      isServer ? capabilities : nil,
    ].compactMap(\.self)
  }
}

extension Configuration {
  func publicAddress(_ sockets: PassedSockets) -> ListenerAddress {
    .init(host: http.host, port: http.port, keys: ("http.host", "http.port"), passed: sockets.public)
  }

  func adminAddress(_ sockets: PassedSockets) -> ListenerAddress {
    .init(host: admin.host, port: admin.port, keys: ("admin.host", "admin.port"), passed: sockets.admin)
  }
}
