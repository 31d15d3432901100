import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

/// The service, or another command that goes on, as another process.
struct Running {
  let process: Process
  let output: URL
  let log: URL

  /// What it has printed, if that is one document.
  var printed: JSON? { (try? String(contentsOf: output, encoding: .utf8)).flatMap { try? JSON.parse($0) } }

  /// Everything that it has logged.
  var logged: String { (try? String(contentsOf: log, encoding: .utf8)) ?? "" }

  /// Its log lines, those that are whole.
  var lines: [JSON] {
    logged.split(separator: "\n").compactMap { try? JSON.parse(String($0)) }
  }

  func port(of listener: String) -> Int? {
    lines.first { $0["listener"]?.string == listener }?["port"]?.integer.map { Int($0) }
  }

  func url(_ listener: String) -> String { "http://127.0.0.1:\(port(of: listener) ?? 0)" }

  func send(_ signal: Int32) {
    kill(process.processIdentifier, signal)
  }

  /// Sends it a signal and expects that it ends so.
  func end(
    _ signal: Int32 = SIGTERM, status expected: Int32 = 0, sourceLocation: SourceLocation = #_sourceLocation
  ) async {
    send(signal)
    #expect(await status() == expected, "\(logged.suffix(500))", sourceLocation: sourceLocation)
  }

  /// A gauge or counter of `/metrics`, by its name with its labels.
  func metric(_ name: String) async throws -> Double? {
    try await call("admin", path: "/metrics").text.split(separator: "\n").first { $0.hasPrefix("\(name) ") }
      .flatMap { Double($0.dropFirst(name.count + 1)) }
  }

  /// The state that `/readyz` tells of a check.
  func check(_ name: String) async throws -> JSON {
    try await call("admin", path: "/readyz").json["checks"]?[name] ?? .null
  }

  /// In kB: `VmRSS`, what it has, or `VmHWM`, the most that it had.
  func memory(_ field: String) throws -> Int {
    let status = try String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("\(field):") })
    return try #require(Int(line.filter(\.isNumber)))
  }

  /// Waits for its end.
  func status() async -> Int32 {
    await eventually("the end") { !process.isRunning }
    return process.isRunning ? -1 : process.terminationStatus
  }

  struct Answer {
    let status: Int
    let type: String?
    let requestID: String?
    let text: String

    var json: JSON { (try? JSON.parse(text)) ?? .null }
  }

  func call(
    _ listener: String = "public", path: String, method: String = "GET", headers: [(String, String)] = [],
    user: (String, String)? = nil, body: [UInt8]? = nil, within limit: TimeAmount = TimeAmount(longestWait)
  ) async throws -> Answer {
    var request = HTTPClientRequest(url: url(listener) + path)
    request.method = .init(rawValue: method)
    for (name, value) in headers { request.headers.add(name: name, value: value) }
    if let user { request.setBasicAuth(username: user.0, password: user.1) }
    if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
    let response = try await HTTPClient.shared.execute(request, timeout: limit)
    return Answer(
      status: Int(response.status.code), type: response.headers.first(name: "Content-Type"),
      requestID: response.headers.first(name: "X-Request-Id"),
      text: String(buffer: try await response.body.collect(upTo: 1 << 22)))
  }
}
