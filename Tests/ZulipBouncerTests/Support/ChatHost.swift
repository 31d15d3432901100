import Crypto
import Foundation
import Hummingbird
import HummingbirdTLS
import NIOSSL
import SwiftASN1
import Synchronization
import X509

/// A chat server's own address, `https://localhost:port`, with a certificate that `caFile` vouches for.
final class ChatHost: Sendable {
  /// What it answers: a status, a body, and a place to be sent to.
  typealias Reply = @Sendable () async throws -> Response

  let hostname: String
  let caFile: String
  private let calls: Calls

  private final class Calls: Sendable {
    let paths = Mutex<[String]>([])
    let reply = Mutex<Reply>({ Response(status: .notFound) })
  }

  private init(port: Int, caFile: String, calls: Calls) {
    hostname = "localhost:\(port)"
    self.caFile = caFile
    self.calls = calls
  }

  /// The paths it was asked for.
  var paths: [String] { calls.paths.withLock { $0 } }

  /// Sets what it answers from now on.
  func reply(_ reply: @escaping Reply) {
    calls.reply.withLock { $0 = reply }
  }

  /// Answers with text.
  func reply(_ status: HTTPResponse.Status, _ body: String) {
    reply { Response(status: status, body: ResponseBody(byteBuffer: ByteBuffer(string: body))) }
  }

  /// Runs a test beside a host.
  static func run(_ test: @escaping @Sendable (ChatHost) async throws -> Void) async throws {
    let (certificate, key) = try selfSigned()
    let caFile = FileManager.default.temporaryDirectory.appending(path: "ca-\(UUID().uuidString).pem")
    try certificate.serializeAsPEM().pemString.write(to: caFile, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(at: caFile) }
    let tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: [
        .certificate(try NIOSSLCertificate(bytes: Array(certificate.serializeAsPEM().derBytes), format: .der))
      ],
      privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem)))
    let calls = Calls()
    let router = Router()
    router.get("/**") { request, _ in
      calls.paths.withLock { $0.append(request.uri.string) }
      return try await calls.reply.withLock { $0 }()
    }
    try await listening(router, over: try .tls(tlsConfiguration: tls)) { port in
      try await test(ChatHost(port: port, caFile: caFile.path(percentEncoded: false), calls: calls))
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
