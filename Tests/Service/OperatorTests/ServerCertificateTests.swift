import Basics
import Foundation
import HTTP
import TestSupport
import Testing

@testable import Operator
@testable import Platform

@Suite struct ServerCertificateTests {
  /// Days of a certificate's life, and those left of it when it has to have been renewed: of a year, 90 and 45 days, and
  /// of 160 hours.
  static let lives: [(life: Double, rest: Double)] = [(365, 14), (90, 14), (45, 11.25), (160 / 24, 40 / 24)]

  @Test(arguments: lives)
  func `A certificate that runs out degrades the service, and the log says so once at each step`(
    life: Double, rest: Double
  ) async throws {
    // Certificates count whole seconds.
    let end = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded() + 30 * 86_400)
    let recorder = LogRecorder()
    let certificate: @Sendable (TestFolder, TestClock) throws -> ServerCertificate = { folder, clock in
      let (certificate, key) = try TestCertificate.makePEM(start: end - life * 86_400, end: end)
      try Data(certificate.utf8).write(to: folder.url.appending(path: "c.pem"))
      try Data(key.utf8).write(to: folder.url.appending(path: "k.pem"))
      return try ServerCertificate(
        .init(certificateFile: "\(folder.path)/c.pem", keyFile: "\(folder.path)/k.pem"),
        now: { clock.now }, logger: recorder.logger)
    }
    try await Operator.test(certificate: certificate) { stand in
      let certificate = try certificate(stand.folder, stand.clock)
      var logged: CertificateExpiry?
      func step(_ days: Double) async throws -> Health {
        stand.clock.set(end - days * 86_400)
        for _ in 0..<3 { certificate.report(&logged) }
        return await stand.readiness.report()
      }
      #expect(try await step(life - 0.1).status == .ready)
      #expect(try await step(rest + 0.1).status == .ready)
      #expect(recorder.lines.isEmpty)

      for (days, state, phrase, level) in [
        (rest - 0.1, "degraded", "expires on", "warning"), (-0.1, "failing", "expired on", "error"),
      ] {
        let health = try await step(days)
        let check = health.json["checks"]?["certificate"]
        #expect(health.status == .degraded && check?["status"]?.string == state, "\(health.json)")
        #expect(check?["expires_at"]?.string == end.formatted(.iso8601))
        #expect(check?["meaning"]?.string?.hasPrefix("The certificate \(phrase) \(end.day)") == true)
        #expect(health.summary.hasPrefix("the certificate \(phrase) \(end.day)"))
        #expect(health.problems.first?.advice?.hasPrefix("renew it") == true)
        #expect(recorder.lines.last?.message == "the certificate \(phrase) \(end.day)")
        #expect(recorder.lines.last.map { "\($0.level)" } == level)
      }
      // The clock was wrong.
      #expect(try await step(rest + 0.1).status == .ready)
      #expect(recorder.lines.count == 3, "\(recorder.texts)")
    }
  }
}
