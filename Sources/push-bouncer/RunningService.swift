import AsyncHTTPClient
import Foundation
import NIOCore
import Operations
import Outgoing
import Wire

/// The service that runs with a configuration, if one does.
enum RunningService {
  /// Whether one answers where the operator's listener should be.
  static func answers(_ configuration: Configuration) async -> Bool {
    let (host, port) = (configuration.admin.host, configuration.admin.port)
    var settings = HTTPClient.Configuration()
    settings.guardConnections()
    settings.connectionPool.retryConnectionEstablishment = false
    let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
    let url = "http://\(host.contains(":") ? "[\(host)]" : host):\(port)/healthz"
    let answer = try? await client.execute(HTTPClientRequest(url: url), timeout: .seconds(2))
    let body = try? await answer?.body.collect(upTo: 1024)
    try? await client.shutdown()
    return body.flatMap { try? JSON.parse(Array($0.readableBytesView)) }?["status"]?.string == "ok"
  }
}
