import Foundation
package import Operations

extension StartCheck {
  /// Everything that has to be in order before the service starts.
  ///
  /// - Parameter isServing: whether a service with this configuration runs already, whose ports are then no fault.
  package static func all(
    _ configuration: Configuration, sockets: PassedSockets = PassedSockets(),
    descriptors: DescriptorLimit = .raised(), isServing: @escaping @Sendable () async -> Bool = { false }
  ) -> [StartCheck] {
    let addresses = [configuration.publicAddress(sockets), configuration.adminAddress(sockets)]
    let listeners = zip(["http", "admin"], addresses).map { name, address in
      StartCheck(name) {
        do {
          try address.check()
        } catch {
          guard await isServing() else { throw error }
          throw Skipped("push-bouncer serves already, and listens on port \(address.port)")
        }
        guard name == "http" || !address.collides(with: addresses[0]) else {
          throw Fault(
            key: "admin.port", "names port \(address.port), and so does http.port",
            advice: "choose another one for either")
        }
        return "port \(address.port) of \(address.host) is free"
      }
    }
    return listeners + basics(configuration, descriptors: descriptors) + nextcloud(configuration)
  }

  private static func nextcloud(_ configuration: Configuration) -> [StartCheck] {
    let settings = configuration.nextcloud
    guard settings.isEnabled else { return [] }
    return [
      file("nextcloud.proxies_ca_file", settings.proxiesCAFile),
      StartCheck("nextcloud apps") {
        _ = try NextcloudAdapter.apps(settings)
        return "every app can be told by its name"
      },
    ].compactMap(\.self)
  }
}

extension Configuration {
  /// Where the public listener is to listen.
  func publicAddress(_ sockets: PassedSockets) -> ListenerAddress {
    .init(host: http.host, port: http.port, keys: ("http.host", "http.port"), passed: sockets.public)
  }

  /// Where the operator's listener is to listen.
  func adminAddress(_ sockets: PassedSockets) -> ListenerAddress {
    .init(host: admin.host, port: admin.port, keys: ("admin.host", "admin.port"), passed: sockets.admin)
  }
}
