import Basics
package import Foundation
import HTTP
import Logging
import NextcloudProxy
import NextcloudServer
package import Operator
package import Platform
import WebPushGateway
import ZulipServer

extension StartCheck {
  /// What `doctor` knows about a service that already runs with the same configuration.
  package struct RunningInstance: Sendable {
    package enum Standing: Sendable {
      /// Nothing answers, or there is no key to ask with.
      case absent
      /// Something answers that has not proved to be the service.
      case unproven
      /// The service does. Its ports are in use then, which is not a fault.
      case serving
    }

    let standing: Standing
    /// The address of the socket that systemd holds for it, such as `127.0.0.1:8080`; nil if there is none.
    let heldAddress: String?

    package init(_ standing: Standing, heldAddress: String?) {
      self.standing = standing
      self.heldAddress = heldAddress
    }
  }

  /// All checks that `serve` makes before it starts.
  ///
  /// - Parameter running: finds out whether a service is running already, for `doctor`.
  package static func all(
    _ configuration: Configuration, sockets: PassedSockets = PassedSockets(),
    descriptors: DescriptorLimit = .raised(), visit: DatabaseVisit,
    now: @escaping @Sendable () -> Date = { Date() },
    running: (@Sendable () async -> RunningInstance)? = nil
  ) -> [StartCheck] {
    let http = configuration.publicAddress(sockets)
    let admin = configuration.adminAddress(sockets)
    let listeners = [
      StartCheck("http") {
        let instance = await running?()
        if let held = instance?.heldAddress {
          try http.check(held: held)
          return .good($0, "systemd holds \(held), also while the service restarts")
        }
        if instance?.standing == .serving {
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
          switch await running?().standing {
          case .serving?:
            return .skipped($0, "push-bouncer serves already, and listens on port \(admin.port)")
          case .unproven?: throw Fault(unprovenAt: admin)
          case .absent?, nil: throw error
          }
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
      + wires(configuration, now: now)
  }

  /// The wires' own checks.
  private static func wires(
    _ configuration: Configuration, now: @escaping @Sendable () -> Date
  ) -> [StartCheck] {
    let gateway = configuration.gateway.checks(publicURL: configuration.http.publicURL)
    guard configuration.nextcloudProxy.isEnabled else { return gateway }
    return gateway
      + configuration.nextcloudServer.checks(hasUsers: configuration.backend.token != nil, now: now)
      + configuration.nextcloudProxy.checks {
        KeyFolder(
          directory: configuration.keys.directory,
          logger: Logger(label: "check") { _ in SwiftLogNoOpLogHandler() }
        ).load().credentials
      }
  }
}

extension Fault {
  fileprivate init(unprovenAt admin: ListenerAddress) {
    self.init(
      key: "admin.port",
      "names port \(admin.port) of \(admin.host), where something answers that has not proved to be this service",
      advice: """
        if it is push-bouncer of an earlier version, restart it; otherwise end the program that listens there (ss -ltnp shows \
        it), or choose another port
        """)
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
