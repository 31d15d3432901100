import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import Operations
import Providers
import Server

/// The service that runs with a configuration, if one does.
enum RunningService {
  /// Asks it on the operator's listener. Where none answers, systemd is asked whether it holds the package's socket.
  static func find(_ configuration: Configuration) async -> StartCheck.Service {
    if let health = await health(configuration) {
      return .init(isServing: true, heldAddress: health["held"]?.string)
    }
    let isPackaged = configuration.file?.hasPrefix("\(Configuration.systemFolder)/") == true
    return .init(isServing: false, heldAddress: isPackaged ? heldBySystemd() : nil)
  }

  private static func health(_ configuration: Configuration) async -> JSON? {
    let (host, port) = (configuration.admin.host, configuration.admin.port)
    var settings = HTTPClient.Configuration()
    settings.guardConnections()
    settings.connectionPool.retryConnectionEstablishment = false
    let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
    let url = "http://\(host.contains(":") ? "[\(host)]" : host):\(port)/healthz"
    let answer = try? await client.execute(HTTPClientRequest(url: url), timeout: .seconds(2))
    let body = try? await answer?.body.collect(upTo: 1024)
    try? await client.shutdown()
    let health = body.flatMap { try? JSON.parse(Array($0.readableBytesView)) }
    return health?["status"]?.string == "ok" ? health : nil
  }

  private static func heldBySystemd() -> String? {
    let (systemctl, output) = (Process(), Pipe())
    systemctl.executableURL = URL(filePath: "/usr/bin/systemctl")
    // Root's may be closed to the service's user, which this is by now.
    systemctl.currentDirectoryURL = URL(filePath: "/")
    systemctl.arguments = ["show", "push-bouncer.socket", "--property=ActiveState,Listen"]
    (systemctl.standardOutput, systemctl.standardError) = (output, FileHandle.nullDevice)
    guard (try? systemctl.run()) != nil, let shown = try? output.fileHandleForReading.readToEnd() else {
      return nil
    }
    let lines = String(decoding: shown, as: UTF8.self).split(separator: "\n")
    guard lines.contains("ActiveState=active") else { return nil }
    // Listen=127.0.0.1:8080 (Stream)
    return lines.first { $0.hasPrefix("Listen=") }?.dropFirst(7).split(separator: " ").first.map(String.init)
  }
}
