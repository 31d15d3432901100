package import Basics
package import Foundation
package import HTTP
import HTTPClient
package import Logging
package import NIOSSL
import Synchronization

/// The public listener's certificate, reloaded for new connections when its files change. If the files cannot
/// be used, for example because only one of them has been replaced, the previous certificate stays in use.
package final class ServerCertificate: Sendable {
  private struct State {
    var signature: [FileAttributes?]
    var context: NIOSSLContext
    var life: CertificateLife
    var problem: String?
  }

  private let files: CertificateFiles
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let state: Mutex<State>

  /// - Throws: ``Fault`` with the setting to correct.
  package init(_ files: CertificateFiles, now: @escaping @Sendable () -> Date, logger: Logger) throws(Fault) {
    self.files = files
    self.now = now
    self.logger = logger
    state = Mutex(
      State(signature: files.signature, context: try files.serverContext(), life: try files.certificateLife())
    )
  }

  /// The TLS context for new connections, looked up for each connection.
  package var forNewConnections: @Sendable () -> NIOSSLContext { { self.state.withLock { $0.context } } }

  /// That of the certificate in use.
  package var life: CertificateLife { state.withLock { $0.life } }

  /// The expiry to warn about; nil while the certificate in use is valid for long enough.
  package var expiry: CertificateExpiry? { CertificateExpiry(life, now: now()) }

  /// What is wrong with the current files; nil if they are in use.
  package var problem: String? { state.withLock { $0.problem } }

  /// Reloads the certificate if its files have changed.
  package func reload() {
    state.withLock { state in
      let signature = files.signature
      // After a failure, loading is tried again even without a change, because the cause may not be in the
      // files.
      guard signature != state.signature || state.problem != nil else { return }
      do {
        state = State(
          signature: signature, context: try files.serverContext(), life: try files.certificateLife())
        logger.notice("certificate reloaded", metadata: ["file": "\(files.certificateFile)"])
      } catch {
        state.signature = signature
        guard state.problem != "\(error)" else { return }
        state.problem = "\(error)"
        logger.error(
          "the new certificate cannot be used; the previous one stays in use",
          metadata: [
            "problem": "\(error)",
            "advice": "put a certificate and its key there; they are reloaded by themselves",
          ])
      }
    }
  }

  /// Checks the files every two seconds until the task is cancelled, and logs once when the certificate is
  /// about to expire, when it has expired, and when it is valid for long again.
  package func run() async {
    var logged: CertificateExpiry?
    await every(.seconds(2)) {
      reload()
      report(&logged)
    }
  }

  /// - Parameter logged: what was logged last.
  func report(_ logged: inout CertificateExpiry?) {
    let expiry = expiry
    guard expiry != logged else { return }
    logged = expiry
    guard let expiry else {
      logger.notice(
        "the certificate is valid until \(life.end.day)", metadata: ["file": "\(files.certificateFile)"])
      return
    }
    logger.log(
      level: expiry.isOver ? .error : .warning, "the certificate \(expiry.phrase)",
      metadata: [
        "file": "\(files.certificateFile)", "meaning": .stringConvertible(expiry.meaning),
        "advice": .stringConvertible(CertificateExpiry.advice),
      ])
  }
}

/// A PEM file that a setting names.
package struct PEMFile: Sendable {
  private let path: String
  private let key: String
  private let text: String

  /// Reads the file.
  ///
  /// - Parameter key: the setting that names it.
  /// - Throws: ``Fault`` with what is wrong with the file.
  package init(_ path: String, key: String) throws(Fault) {
    self.path = path
    self.key = key
    text = String(decoding: try PrivateFile.contents(of: path, atMost: 4 << 20, key: key), as: UTF8.self)
    guard text.utf8.contains("-----BEGIN ".utf8) else {
      throw Fault(
        key: key, "names \(path), which is no PEM file (there is no line -----BEGIN ...)",
        advice: "put a file in PEM there, or convert it with openssl")
    }
  }

  package func certificates() throws(Fault) -> [NIOSSLCertificate] {
    guard text.utf8.contains("CERTIFICATE-----".utf8) else {
      throw Fault(
        key: key, "names \(path), which has no certificate in it",
        advice: "put the certificate there; perhaps it is in the key's file")
    }
    guard let chain = try? NIOSSLCertificate.fromPEMBytes(Array(text.utf8)), !chain.isEmpty else {
      throw Fault(
        key: key, "names \(path), whose certificate is damaged", advice: "put the certificate there anew")
    }
    return chain
  }

  package func privateKey() throws(Fault) -> NIOSSLPrivateKey {
    guard text.utf8.contains("PRIVATE KEY-----".utf8) else {
      throw Fault(
        key: key, "names \(path), which has no private key in it",
        advice: "put the key there; perhaps it is in the certificate's file")
    }
    guard !text.utf8.contains("ENCRYPTED".utf8) else {
      throw Fault(
        key: key, "names \(path), whose key has a passphrase",
        advice: "remove it with openssl pkey -in OLD -out NEW, and let only the service read the new file")
    }
    guard let privateKey = try? NIOSSLPrivateKey(bytes: Array(text.utf8), format: .pem) else {
      throw Fault(key: key, "names \(path), whose key is damaged", advice: "put the key there anew")
    }
    return privateKey
  }
}

extension NIOSSLCertificate {
  package var life: CertificateLife {
    CertificateLife(
      start: Date(timeIntervalSince1970: TimeInterval(notValidBefore)),
      end: Date(timeIntervalSince1970: TimeInterval(notValidAfter)))
  }
}

extension String.UTF8View {
  fileprivate func contains(_ part: String.UTF8View) -> Bool { firstRange(of: part) != nil }
}

extension CertificateFiles {
  fileprivate var signature: [FileAttributes?] { [certificateFile, keyFile].map(FileAttributes.init) }

  /// The certificate and its key as a server's TLS context.
  ///
  /// - Throws: ``Fault`` with the setting to correct.
  package func serverContext() throws(Fault) -> NIOSSLContext {
    let chain = try certificates()
    let key = try PEMFile(keyFile, key: "http.tls.key_file").privateKey()
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: chain.map(NIOSSLCertificateSource.certificate), privateKey: .privateKey(key))
    configuration.requireForwardSecrecy()
    guard let context = try? NIOSSLContext(configuration: configuration) else {
      throw Fault(
        key: "http.tls.key_file", "names \(keyFile), which is not the key of \(certificateFile)",
        advice: "put a certificate and its own key there")
    }
    return context
  }

  package func certificateLife() throws(Fault) -> CertificateLife { try certificates()[0].life }

  private func certificates() throws(Fault) -> [NIOSSLCertificate] {
    try PEMFile(certificateFile, key: "http.tls.certificate_file").certificates()
  }
}
