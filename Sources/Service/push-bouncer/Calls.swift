import AsyncHTTPClient
import Foundation
import HTTP
import HTTPClient
import NIOCore
import NIOHTTP1
import Operator
import Platform
import Providers
import Sealing
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

/// Asks the service that runs with a configuration. It proves itself with its answer, so nobody else is believed, and no
/// token is shown to anybody.
enum RunningService {
  enum Answer {
    case absent
    /// Something answers that is not this service, or is of a version that cannot prove itself.
    case unproven
    case proven(JSON)
  }

  /// Asks at the operator's listener.
  ///
  /// - Parameter storageKey: what the service that is asked has too.
  static func ask(
    _ question: SealedCall.Question, _ admin: AdminSettings, _ storageKey: StorageKey
  ) async -> Answer {
    let call = SealedCall(question, storageKey)
    var request = HTTPClientRequest(url: url(admin) + SealedCall.path)
    request.method = .POST
    request.body = .bytes(ByteBuffer(bytes: call.body))
    var settings = HTTPClient.Configuration()
    settings.guardConnections()
    guard let answer = try? await callOnce(request, settings, within: .seconds(5), bytes: 1 << 20) else {
      return .absent
    }
    return call.open(Array(answer.body.readableBytesView)).map { .proven($0) } ?? .unproven
  }

  /// Asks for its state.
  static func state(
    _ configuration: Configuration
  ) async -> (standing: StartCheck.RunningInstance.Standing, state: ReportedState?) {
    // Without a key there is no service that has it; a key that cannot be read has a finding of its own.
    guard let key = try? KeyFolder.existingStorageKey(in: configuration.keys.directory) else {
      return (.absent, nil)
    }
    switch await ask(.state, configuration.admin, key) {
    case .absent: return (.absent, nil)
    case .unproven: return (.unproven, nil)
    case .proven(let answer): return (.serving, ReportedState(answer))
    }
  }

  /// Finds the service. If it does not answer, asks systemd whether it holds the package's socket.
  static func find(_ configuration: Configuration) async -> StartCheck.RunningInstance {
    let (standing, state) = await state(configuration)
    let held = standing != .serving && configuration.isPackaged ? heldBySystemd() : state?.heldAddress
    return .init(standing, heldAddress: held)
  }

  /// The address of the operator's listener, as a caller on the same machine reaches it.
  static func url(_ admin: AdminSettings) -> String {
    let host = ["0.0.0.0": "127.0.0.1", "::": "::1"][admin.host] ?? admin.host
    return "http://\(host.contains(":") ? "[\(host)]" : host):\(admin.port)"
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
