import Foundation
import HTTP
import Settings
import TestSupport
import Testing

@testable import Operator
@testable import Platform

@Suite struct ServerCertificateTests {
  @Test func `A certificate that runs out degrades the service, and the log says so once at each step`()
    async throws
  {
    let end = Date() + 30 * 86_400
    let recorder = LogRecorder()
    let certificate: @Sendable (TestFolder, TestClock) throws -> ServerCertificate = { folder, clock in
      let (certificate, key) = try TestCertificate.makePEM(end: end)
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
      #expect(try await step(14.5).status == .ready)
      #expect(recorder.lines.isEmpty)

      for (days, state, phrase, level) in [
        (13.5, "degraded", "expires on", "warning"), (-0.1, "failing", "expired on", "error"),
      ] {
        let health = try await step(days)
        let check = health.json["checks"]?["certificate"]
        #expect(health.status == .degraded && check?["status"]?.string == state, "\(health.json)")
        #expect(check?["expires_at"]?.string == certificate.end.formatted(.iso8601))
        #expect(check?["meaning"]?.string?.hasPrefix("The certificate \(phrase) \(end.day)") == true)
        #expect(health.summary.hasPrefix("the certificate \(phrase) \(end.day)"))
        #expect(health.problems.first?.advice?.hasPrefix("renew it") == true)
        #expect(recorder.lines.last?.message == "the certificate \(phrase) \(end.day)")
        #expect(recorder.lines.last.map { "\($0.level)" } == level)
      }
      // The clock was wrong.
      #expect(try await step(20).status == .ready)
      #expect(recorder.lines.count == 3, "\(recorder.texts)")
    }
  }
}
