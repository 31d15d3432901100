import ArgumentParser
import Logging
import Operations
import Wire

/// `doctor`: is everything as it should be?
struct Examine: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract:
      "Checks configuration, keys, permissions, database, clock, TLS and each provider; exits 1 if it finds a fault.",
    discussion: """
      Each credential is tried with a push to a token that cannot exist, so nobody gets anything. Nothing is changed.
      """)

  @OptionGroup var options: GlobalOptions

  func run() async throws {
    // A fault is told as a finding; the log would tell it a second time.
    bootstrapLogging(level: .critical, format: .text)
    let findings: [Finding]
    do {
      let configuration = try options.load()
      findings = await Doctor(configuration, providerTime: { await ProviderTime.ask(configuration) })
        .examine()
    } catch let error as ConfigurationError {
      findings = [Doctor.finding(error)]
    }
    options.show(
      ["findings": .array(findings.map(\.json))], findings.map(\.line).joined(separator: "\n"))
    if !findings.allSatisfy(\.isGood) { throw ExitCode.failure }
  }
}

extension Finding {
  fileprivate var json: JSON {
    [
      "check": .string(check), "ok": .bool(isGood), "detail": .string(detail),
      "advice": advice.map(JSON.string) ?? .null,
    ]
  }

  fileprivate var line: String {
    "\(isGood ? "ok   " : "FAULT") \(check): \(detail)" + (advice.map { "\n      \($0)" } ?? "")
  }
}
