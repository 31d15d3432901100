import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import NIOSSL
import TestSupport
import Testing

/// Tests the public listener's TLS with strict clients.
@Suite struct CertificateTests {
  /// A client that asks for the service's front page.
  private struct Client {
    let client: HTTPClient
    let url: String

    /// - Parameters:
    ///   - trusted: the only certificate that it takes, in PEM; nil for any.
    static func with<Result>(
      _ running: Running, trusting trusted: String? = nil, ciphers: String? = nil,
      version: TLSVersion? = nil, _ body: (Client) async throws -> Result
    ) async throws -> Result {
      var tls = TLSConfiguration.makeClientConfiguration()
      if let version { (tls.minimumTLSVersion, tls.maximumTLSVersion) = (version, version) }
      if let ciphers { tls.cipherSuites = ciphers }
      if let trusted {
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(trusted.utf8)))
        tls.certificateVerification = .noHostnameVerification
      } else {
        tls.certificateVerification = .none
      }
      var configuration = HTTPClient.Configuration(tlsConfiguration: tls)
      configuration.connectionPool.retryConnectionEstablishment = false
      configuration.timeout.connect = TimeAmount(longestWait)
      let url = running.url("public").replacing("http:", with: "https:") + "/"
      return try await HTTPClient.withHTTPClient(configuration: configuration) {
        try await body(Client(client: $0, url: url))
      }
    }

    /// Whether it is answered.
    func isAnswered() async -> Bool {
      do {
        let answer = try await client.execute(HTTPClientRequest(url: url), timeout: TimeAmount(longestWait))
        _ = try await answer.body.collect(upTo: 1 << 16)
        return answer.status == .notFound
      } catch {
        return false
      }
    }

    /// Whether a new connection is answered.
    static func reaches(
      _ running: Running, trusting trusted: String? = nil, ciphers: String? = nil,
      version: TLSVersion? = nil
    ) async throws -> Bool {
      try await with(running, trusting: trusted, ciphers: ciphers, version: version) { await $0.isAnswered() }
    }
  }

  private static let options = [
    "--http.tls.certificate_file", "certificate.pem", "--http.tls.key_file", "key.pem",
  ]

  /// Runs the service with a certificate; the test gets that.
  private func serve(
    isRSA: Bool = false, _ test: (Workplace, Running, _ certificate: String) async throws -> Void
  ) async throws {
    try await Workplace.test(begun: true) { place in
      let (certificate, key) = try TestCertificate.makePEM(isRSA: isRSA)
      try place.write("certificate.pem", certificate)
      try place.write("key.pem", key)
      try await place.serve(Self.options) { try await test(place, $0, certificate) }
    }
  }

  @Test func `Who cannot keep a secret for ever is refused`() async throws {
    // An RSA key, as with another nobody could want the exchange of keys that it is about.
    try await serve(isRSA: true) { _, running, _ in
      for ciphers in ["RSA+AESGCM", "RSA+AES", "ECDHE+AES+SHA1"] {
        let isAnswered = try await Client.reaches(
          running, ciphers: ciphers, version: .tlsv12)
        #expect(!isAnswered, "\(ciphers)")
      }
      #expect(try await !Client.reaches(running, version: .tlsv11))
      for ciphers in ["ECDHE+AESGCM", "ECDHE+CHACHA20"] {
        let isAnswered = try await Client.reaches(
          running, ciphers: ciphers, version: .tlsv12)
        #expect(isAnswered, "\(ciphers)")
      }
      #expect(try await Client.reaches(running, version: .tlsv13))
    }
  }

  @Test(arguments: [true, false]) func `A renewed certificate is reloaded`(bySignal: Bool) async throws {
    try await serve { place, running, old in
      try await Client.with(running, trusting: old) { early in
        #expect(await early.isAnswered())
        let (new, key) = try TestCertificate.makePEM(start: Date() - 86_400, end: Date() + 3600)
        try place.write("key.pem", key)
        try place.write("certificate.pem", new)
        if bySignal { running.send(SIGHUP) }
        try await eventually("the new certificate") {
          // The open connection is used all the while: it would not be answered on another.
          #expect(await early.isAnswered())
          return try await Client.reaches(running, trusting: new)
        }
        #expect(await early.isAnswered())
      }
      #expect(try await !Client.reaches(running, trusting: old))
      // The new one expires within the hour; clocks are rounded.
      #expect(try await running.check("certificate")["status"] == "degraded")
      let end = try await running.metric("push_bouncer_certificate_expiry_timestamp_seconds")
      let left = try #require(end) - Date().timeIntervalSince1970
      #expect((0...3700).contains(left))
      // A quarter of its 25 hours before that.
      let renewal = try await running.metric("push_bouncer_certificate_renewal_timestamp_seconds")
      let sinceRenewal = try #require(end) - #require(renewal)
      #expect((22_400...22_600).contains(sinceRenewal))
    }
  }

  @Test func `One that is broken is not`() async throws {
    try await serve { place, running, old in
      let (new, key) = try TestCertificate.makePEM()
      func failures() -> [JSON] {
        running.lines.filter {
          $0["message"]?.string?.hasPrefix("the new certificate cannot be used") == true
        }
      }
      func replace(_ file: String, _ text: String) throws {
        try Data(text.utf8).write(to: place.folder.appending(path: file), options: .atomic)
      }
      // Half of the pair is there.
      try replace("certificate.pem", new)
      await eventually("a line in the log") { failures().count == 1 }
      #expect(failures().first?["problem"]?.string?.contains("http.tls.key_file") == true)
      #expect(failures().first?["advice"] != nil)
      let ready = try await running.call("admin", path: "/readyz")
      #expect(ready.status == 200)
      #expect(ready.json["status"]?.string == "degraded")
      let check = ready.json["checks"]?["certificate"]
      #expect(check?["status"]?.string == "failing")
      #expect(check?["meaning"]?.string?.contains("key.pem") == true)
      #expect(try await Client.reaches(running, trusting: old))

      // Half of the file is there, and that is a new problem; looked at again, it is an old one.
      try replace("certificate.pem", String(new.prefix(new.count / 2)))
      await eventually("another line in the log") { failures().count == 2 }
      for _ in 0..<3 {
        running.send(SIGHUP)
        #expect(try await Client.reaches(running, trusting: old))
      }
      #expect(failures().count == 2)

      try replace("key.pem", key)
      try replace("certificate.pem", new)
      try await eventually("the whole one") { try await Client.reaches(running, trusting: new) }
      let mended = try await running.call("admin", path: "/readyz")
      #expect(mended.json["status"]?.string == "ready")
    }
  }
}
