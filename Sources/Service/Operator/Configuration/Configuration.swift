package import Basics
package import Delivery
import Foundation
package import HTTP
package import NextcloudProxy
package import NextcloudServer
package import Platform
package import Providers
package import Registrations
package import SQL
package import WebPushGateway
package import ZulipBouncer
package import ZulipServer

/// The configuration: the settings of all parts. Each part declares its own, with ``Setting``: key, default, values
/// and help. Their order here is that of the sections in the sample file and in `Documentation/Configuration.md`,
/// which are generated from them. A class, because the parts that keep it would copy some sixty values with each call.
package final class Configuration: Sendable {
  package let http = HTTPSettings()
  package let `operator` = OperatorSettings()
  package let admin = AdminSettings()
  package let database = DatabaseSettings()
  package let keys = KeysSettings()
  package let bouncer = BouncerSettings()
  package let upstream = UpstreamSettings()
  package let apns = APNsSettings()
  package let fcm = FCMSettings()
  package let providers = ProvidersSettings()
  package let webPush = WebPushSettings()
  package let delivery = DeliverySettings()
  package let registrations = RegistrationSettings()
  package let zulipServer = ZulipServerSettings()
  package let backend = BackendSettings()
  package let server = BuiltInServerSettings()
  package let nextcloudProxy = NextcloudProxySettings()
  package let nextcloudServer = NextcloudServerSettings()
  package let gateway = GatewaySettings()
  package let log = LogSettings()

  /// The values as written in the file, the environment or the command line, by key.
  let written: [String: WrittenValue]
  /// The file that was read; nil if there was none.
  package let file: String?

  init(written: [String: WrittenValue], file: String?) { (self.written, self.file) = (written, file) }

  /// The declarations of all settings, in order.
  package static let settings: [SettingDeclaration] = {
    let reader = SettingsReader([:])
    _ = SettingsReader.$current.withValue(reader) { Configuration(written: [:], file: nil) }
    return bySection(reader.declarations)
  }()

  /// The declarations, those of one section together: several parts may have settings in one.
  private static func bySection(_ declarations: [SettingDeclaration]) -> [SettingDeclaration] {
    var sections: [Substring] = []
    for section in declarations.map(\.section) where !sections.contains(section) { sections.append(section) }
    return sections.flatMap { section in declarations.filter { $0.section == section } }
  }
}

extension Configuration {
  /// Where the providers are, if not where they usually are.
  var endpoints: [Route.Provider: URL?] {
    Dictionary(
      uniqueKeysWithValues: Route.Provider.allCases.map { provider in
        switch provider {
        case .apns: (provider, apns.endpoint)
        case .fcm: (provider, fcm.endpoint)
        case .webPush, .upstream: (provider, nil)
        }
      })
  }

  /// The routes that need no credential, as their names are shown.
  package var routesElsewhere: [String] {
    upstream.authority.map { ["\(Route.Provider.elsewhere):\($0)"] } ?? []
  }
}

extension Configuration {
  /// False where another bouncer has all credentials.
  package var isDelivering: Bool {
    if case .remote = zulipServer.bouncer { nextcloudProxy.isEnabled } else { true }
  }
}
