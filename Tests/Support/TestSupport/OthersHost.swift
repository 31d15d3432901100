package import Foundation
package import HTTPTypes
package import Hummingbird
import HummingbirdCore
import HummingbirdTLS
import Logging
import ServiceLifecycle
import Synchronization

/// A foreign server whose answers the test sets.
package final class OthersHost: Sendable {
  /// A call that it received.
  package struct Call: Sendable {
    package let path: String
    package let headers: HTTPFields
    package let body: String
  }

  /// What it answers.
  package typealias Reply = @Sendable (Call) async throws -> Response

  private final class Calls: Sendable {
    struct State {
      var seen: [Call] = []
      var reply: Reply = { _ in OthersHost.response(404, "") }
    }

    let state = Mutex(State())
  }

  package let port: Int
  /// Where it is.
  package let url: String
  /// A file with its certificate; empty without TLS.
  package let caFile: String
  private let calls: Calls

  private init(port: Int, certificate: TestCertificate?, calls: Calls) {
    self.port = port
    url = certificate == nil ? "http://127.0.0.1:\(port)" : "https://localhost:\(port)"
    caFile = certificate?.caFile ?? ""
    self.calls = calls
  }

  /// Host and port as its certificate names it.
  package var name: String { "localhost:\(port)" }

  /// The calls that it has received.
  package var seen: [Call] { calls.state.withLock { $0.seen } }

  /// Sets its answer from now on.
  package func reply(_ reply: @escaping Reply) { calls.state.withLock { $0.reply = reply } }

  /// Answers with text.
  package func reply(_ status: Int, _ body: String, headers: HTTPFields = [:]) {
    reply { _ in Self.response(status, body, headers: headers) }
  }

  package static func response(_ status: Int, _ body: String, headers: HTTPFields = [:]) -> Response {
    Response(
      status: .init(code: status), headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: body)))
  }

  /// Runs a test beside one with TLS.
  ///
  /// - Parameters:
  ///   - ciphers: the only cipher suites of TLS 1.2 that it supports; nil for all.
  ///   - name: the only host name in its certificate.
  ///   - address: the only IPv4 address in its certificate.
  ///   - end: when its certificate expires.
  package static func run(
    ciphers: String? = nil, certified name: String? = nil, at address: [UInt8]? = nil,
    until end: Date = Date() + 3600, _ test: @escaping @Sendable (OthersHost) async throws -> Void
  ) async throws {
    let certificate = try TestCertificate(host: name, address: address, end: end, ciphers: ciphers)
    defer { try? FileManager.default.removeItem(atPath: certificate.caFile) }
    try await run(certificate, over: try .tls(tlsConfiguration: certificate.configuration), test)
  }

  /// Runs a test beside one without TLS.
  package static func runInClear(
    _ test: @escaping @Sendable (OthersHost) async throws -> Void
  ) async throws {
    try await run(nil, over: .http1(), test)
  }

  private static func run(
    _ certificate: TestCertificate?, over server: HTTPServerBuilder,
    _ test: @escaping @Sendable (OthersHost) async throws -> Void
  ) async throws {
    let calls = Calls()
    let answer: @Sendable (Request, BasicRequestContext) async throws -> Response = { request, _ in
      let body = String(buffer: try await request.body.collect(upTo: 16 << 20))
      let call = Call(path: request.uri.string, headers: request.headers, body: body)
      let reply = calls.state.withLock { state in
        state.seen.append(call)
        return state.reply
      }
      return try await reply(call)
    }
    let router = Router()
    for method in [HTTPRequest.Method.post, .get] { router.on("/**", method: method, use: answer) }
    try await listening(router, over: server) { port in
      try await test(OthersHost(port: port, certificate: certificate, calls: calls))
    }
  }
}

/// Runs a test while a foreign server listens, and shuts that one down gracefully: NIO fails fatally if a
/// connection arrives while its server is cancelled.
private func listening(
  _ router: Router<BasicRequestContext>, over server: HTTPServerBuilder = .http1(),
  _ test: @escaping @Sendable (_ port: Int) async throws -> Void
) async throws {
  var logger = Logger(label: "others")
  logger.logLevel = .critical
  let (ports, port) = AsyncStream.makeStream(of: Int.self)
  let application = Application(
    router: router, server: server, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
    onServerRunning: { channel in port.yield(channel.localAddress?.port ?? 0) }, logger: logger)
  let group = ServiceGroup(configuration: .init(services: [application], logger: logger))
  try await withThrowingTaskGroup(of: Void.self) { tasks in
    tasks.addTask { try await group.run() }
    var result = Result<Void, any Error>.success(())
    for await port in ports {
      do { try await test(port) } catch { result = .failure(error) }
      break
    }
    await group.triggerGracefulShutdown()
    try await tasks.waitForAll()
    try result.get()
  }
}
