import Crypto
import CryptoExtras
package import Foundation
package import HTTPTypes
package import Hummingbird
import HummingbirdTLS
import NIOSSL
import SwiftASN1
import Synchronization
import X509

/// A server of other people's at `https://localhost:port`, with a certificate that `caFile` vouches for.
package final class OthersHost: Sendable {
  /// What it answers.
  package typealias Reply = @Sendable () async throws -> Response

  private final class Calls: Sendable {
    struct State {
      var seen: [(path: String, headers: HTTPFields)] = []
      var reply: Reply = { Response(status: .notFound) }
    }

    let state = Mutex(State())
  }

  /// Host and port.
  package let name: String
  /// A file with the certificate.
  package let caFile: String
  private let calls: Calls

  private init(port: Int, caFile: String, calls: Calls) {
    name = "localhost:\(port)"
    self.caFile = caFile
    self.calls = calls
  }

  /// What it was asked for.
  package var seen: [(path: String, headers: HTTPFields)] { calls.state.withLock { $0.seen } }

  /// Sets what it answers from now on.
  package func reply(_ reply: @escaping Reply) {
    calls.state.withLock { $0.reply = reply }
  }

  /// Answers with text.
  package func reply(_ status: HTTPResponse.Status, _ body: String, headers: HTTPFields = [:]) {
    reply {
      Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: body)))
    }
  }

  /// Runs a test beside it.
  ///
  /// - Parameters:
  ///   - ciphers: those that it knows, of TLS 1.2; nil for any.
  ///   - name: whom its certificate is of.
  ///   - end: until when.
  package static func run(
    ciphers: String? = nil, certified name: String = "localhost", until end: Date = Date() + 3600,
    _ test: @escaping @Sendable (OthersHost) async throws -> Void
  ) async throws {
    // Only an RSA key serves the old ones.
    let (certificate, key) = try selfSigned(isRSA: ciphers != nil, name, until: end)
    let caFile = FileManager.default.temporaryDirectory.appending(path: "ca-\(UUID().uuidString).pem")
    try certificate.serializeAsPEM().pemString.write(to: caFile, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(at: caFile) }
    var tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: [
        .certificate(try NIOSSLCertificate(bytes: Array(certificate.serializeAsPEM().derBytes), format: .der))
      ],
      privateKey: .privateKey(
        try NIOSSLPrivateKey(bytes: Array(key.serializeAsPEM().pemString.utf8), format: .pem)))
    if let ciphers {
      tls.cipherSuites = ciphers
      tls.maximumTLSVersion = .tlsv12
    }
    let calls = Calls()
    let router = Router()
    router.get("/**") { request, _ in
      let reply = calls.state.withLock { state in
        state.seen.append((request.uri.string, request.headers))
        return state.reply
      }
      return try await reply()
    }
    try await listening(router, over: try .tls(tlsConfiguration: tls)) { port in
      try await test(OthersHost(port: port, caFile: caFile.path(percentEncoded: false), calls: calls))
    }
  }

  /// A certificate for `localhost` that vouches for itself, and its key, both in PEM.
  ///
  /// - Parameter isRSA: whether the key could decrypt as well as sign, as TLS without forward secrecy wants it.
  package static func selfSignedPEM(isRSA: Bool = false) throws -> (certificate: String, key: String) {
    let (certificate, key) = try selfSigned(isRSA: isRSA)
    return (try certificate.serializeAsPEM().pemString, try key.serializeAsPEM().pemString)
  }

  private static func selfSigned(
    isRSA: Bool, _ host: String = "localhost", until end: Date = Date() + 3600
  ) throws -> (Certificate, Certificate.PrivateKey) {
    let key: Certificate.PrivateKey =
      isRSA ? .init(try _RSA.Signing.PrivateKey(keySize: .bits2048)) : .init(P256.Signing.PrivateKey())
    let name = try DistinguishedName { CommonName(host) }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: key.publicKey, notValidBefore: Date() - 3600,
      notValidAfter: end, issuer: name, subject: name,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
        SubjectAlternativeNames([.dnsName(host)])
      }, issuerPrivateKey: key)
    return (certificate, key)
  }
}
