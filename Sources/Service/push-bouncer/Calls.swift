import AsyncHTTPClient
import Foundation
import HTTP
import HTTPClient
import NIOCore
import NIOHTTP1
import Operator
import Platform
import Providers
import Server

/// Sends a request without retries: a server that cannot be reached now will not be reachable a moment later.
///
/// - Parameter bytes: the largest response body to read; 0 to read none.
private func callOnce(
  _ request: HTTPClientRequest, _ settings: HTTPClient.Configuration, within limit: TimeAmount,
  bytes: Int = 0
) async throws -> (head: HTTPClientResponse, body: ByteBuffer) {
  var settings = settings
  settings.redirectConfiguration = .disallow
  settings.connectionPool.retryConnectionEstablishment = false
  let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
  do {
    let head = try await client.execute(request, timeout: limit)
    let body = bytes == 0 ? ByteBuffer() : try await head.body.collect(upTo: bytes)
    try? await client.shutdown()
    return (head, body)
  } catch {
    try? await client.shutdown()
    throw error
  }
}

/// Finds a service that already runs with a configuration.
enum RunningService {
  /// Calls the operator's listener. If it does not answer, asks systemd whether it holds the package's
  /// socket.
  static func find(_ configuration: Configuration) async -> StartCheck.RunningInstance {
    let health = await get("/healthz", configuration.admin)
    if let health, health["status"]?.string == "ok" {
      return .init(isServing: true, heldAddress: health["held_address"]?.string)
    }
    return .init(isServing: false, heldAddress: configuration.isPackaged ? heldBySystemd() : nil)
  }

  /// The address of the operator's listener, as a caller on the same machine reaches it.
  static func url(_ admin: AdminSettings) -> String {
    let host = ["0.0.0.0": "127.0.0.1", "::": "::1"][admin.host] ?? admin.host
    return "http://\(host.contains(":") ? "[\(host)]" : host):\(admin.port)"
  }

  /// What the running service says of its health; nil if it does not answer.
  static func health(_ admin: AdminSettings) async -> ReportedHealth? {
    await get("/readyz", admin).flatMap(ReportedHealth.init)
  }

  /// The JSON response of the operator's listener; nil if there is none.
  static func get(_ path: String, _ admin: AdminSettings) async -> JSON? {
    var request = HTTPClientRequest(url: url(admin) + path)
    // Everybody may ask for /healthz, and until it has answered another program may have the port.
    if path != "/healthz", let token = admin.token {
      request.headers.add(name: "Authorization", value: "Bearer \(token)")
    }
    var settings = HTTPClient.Configuration()
    settings.guardConnections()
    let answer = try? await callOnce(request, settings, within: .seconds(5), bytes: 1 << 20)
    return answer.flatMap { try? JSON.parse(Array($0.body.readableBytesView)) }
  }

  private static func heldBySystemd() -> String? {
    let systemctl = Process()
    let output = Pipe()
    systemctl.executableURL = URL(filePath: "/usr/bin/systemctl")
    // The working folder may be root's, which the service's user may not enter; the process runs as that user
    // by now.
    systemctl.currentDirectoryURL = URL(filePath: "/")
    systemctl.arguments = ["show", "push-bouncer.socket", "--property=ActiveState,Listen"]
    systemctl.standardOutput = output
    systemctl.standardError = FileHandle.nullDevice
    guard (try? systemctl.run()) != nil, let shown = try? output.fileHandleForReading.readToEnd() else {
      return nil
    }
    let lines = String(decoding: shown, as: UTF8.self).split(separator: "\n")
    guard lines.contains("ActiveState=active") else { return nil }
    // The line has the form `Listen=127.0.0.1:8080 (Stream)`.
    return lines.first { $0.hasPrefix("Listen=") }?.dropFirst(7).split(separator: " ").first.map(String.init)
  }
}

/// Asks FCM for the time, over the same HTTP proxy and with the same trust roots as pushes.
enum ProviderTime {
  /// The `Date` header of the response (RFC 9110 section 6.6.1), whatever its status; nil if there is none.
  static func ask(_ configuration: Configuration) async -> Date? {
    guard let url = configuration.fcm.endpoint else { return nil }
    let answer = try? await callOnce(
      HTTPClientRequest(url: url.absoluteString), .outgoing(configuration.providers), within: .seconds(10))
    return answer?.head.headers.first(name: "date").flatMap(RetryAfter.parse)
  }
}

/// Calls one of the operator's own push services, with the same trust roots as for pushes.
enum OwnPushService {
  static func ask(_ host: String, _ configuration: Configuration, port: Int = 443) async
    -> Operator.Doctor.PushServiceAnswer
  {
    guard let addresses = try? await HostAddresses.resolve(host), !addresses.isEmpty else {
      return .failed(.nameNotResolved)
    }
    let url = "https://\(host.contains(":") ? "[\(host)]" : host):\(port)/"
    do {
      _ = try await callOnce(
        HTTPClientRequest(url: url), .outgoing(configuration.providers), within: .seconds(10))
      return .answered
    } catch {
      return ConnectionFailure(error).map { .failed($0) } ?? .silent
    }
  }
}
