import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTLS
import Logging
import NIOSSL
import ServiceLifecycle
import SwiftASN1
import Synchronization
import Wire
import X509

/// A user's own server as far as it tells the user's key, at `https://localhost:port`, with a certificate
/// that `caFile` vouches for.
final class ProxyHost: Sendable {
  typealias Reply = @Sendable () async throws -> Response

  private struct Calls {
    var seen: [(path: String, headers: HTTPFields)] = []
    var reply: Reply = { Response(status: .notFound) }
  }

  let name: String
  let caFile: String
  private let calls = Mutex(Calls())

  private init(port: Int, caFile: String) {
    name = "localhost:\(port)"
    self.caFile = caFile
  }

  /// What it was asked for.
  var seen: [(path: String, headers: HTTPFields)] { calls.withLock { $0.seen } }

  /// Sets what it answers from now on.
  func reply(_ reply: @escaping Reply) {
    calls.withLock { $0.reply = reply }
  }

  /// Answers with text.
  func reply(_ status: HTTPResponse.Status, _ body: String, headers: HTTPFields = [:]) {
    reply {
      Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: body)))
    }
  }

  /// Answers as Nextcloud does.
  func reply(key pem: String) {
    reply(.ok, JSON.object(["ocs": ["meta": ["status": "ok"], "data": ["public": .string(pem)]]]).text)
  }

  /// Runs a test beside it. It ends as it should: a connection that is just coming in when its server is
  /// cancelled is a fatal error in NIO.
  static func run(_ test: @escaping @Sendable (ProxyHost) async throws -> Void) async throws {
    let (certificate, key) = try selfSigned()
    let caFile = FileManager.default.temporaryDirectory.appending(path: "ca-\(UUID().uuidString).pem")
    try certificate.serializeAsPEM().pemString.write(to: caFile, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(at: caFile) }
    let tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: [
        .certificate(try NIOSSLCertificate(bytes: Array(certificate.serializeAsPEM().derBytes), format: .der))
      ],
      privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem)))
    let host = Mutex<ProxyHost?>(nil)
    let router = Router()
    router.get("/**") { request, _ in
      guard let host = host.withLock({ $0 }) else { throw CancellationError() }
      let reply = host.calls.withLock { calls in
        calls.seen.append((request.uri.string, request.headers))
        return calls.reply
      }
      return try await reply()
    }
    var logger = Logger(label: "host")
    logger.logLevel = .critical
    let (ports, port) = AsyncStream.makeStream(of: Int.self)
    let application = Application(
      router: router, server: try .tls(tlsConfiguration: tls),
      configuration: .init(address: .hostname("127.0.0.1", port: 0)),
      onServerRunning: { port.yield($0.localAddress?.port ?? 0) }, logger: logger)
    let group = ServiceGroup(configuration: .init(services: [application], logger: logger))
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await group.run() }
      var result = Result<Void, any Error>.success(())
      for await port in ports {
        let running = ProxyHost(port: port, caFile: caFile.path(percentEncoded: false))
        host.withLock { $0 = running }
        do { try await test(running) } catch { result = .failure(error) }
        break
      }
      await group.triggerGracefulShutdown()
      try await tasks.waitForAll()
      try result.get()
    }
  }

  private static func selfSigned() throws -> (Certificate, P256.Signing.PrivateKey) {
    let key = P256.Signing.PrivateKey()
    let name = try DistinguishedName { CommonName("localhost") }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey), notValidBefore: Date() - 3600,
      notValidAfter: Date() + 3600, issuer: name, subject: name, signatureAlgorithm: .ecdsaWithSHA256,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
        SubjectAlternativeNames([.dnsName("localhost")])
      }, issuerPrivateKey: .init(key))
    return (certificate, key)
  }
}
