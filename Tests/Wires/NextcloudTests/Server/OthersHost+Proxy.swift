import HTTP
import TestSupport

/// A foreign host as a push proxy.
extension OthersHost {
  /// Runs a test with a proxy without TLS, which accepts everything by default.
  static func runProxy(_ test: @escaping @Sendable (OthersHost) async throws -> Void) async throws {
    try await runInClear { proxy in
      proxy.reply(200, unknown([], failed: 0))
      try await test(proxy)
    }
  }

  /// An answer that reports these phones as unknown.
  static func unknown(_ identifiers: [String], failed: Int) -> String {
    JSON.object(["unknown": .array(identifiers.map(JSON.string)), "failed": .integer(Int64(failed))]).text
  }
}

extension OthersHost.Call {
  /// The entries, each with its name in the form.
  var fields: [Form.Field] { Form.parse(Array(body.utf8)) ?? [] }
  var entries: [JSON] { fields.compactMap { try? JSON.parse($0.value) } }
  var identifiers: [String] { entries.compactMap { $0["deviceIdentifier"]?.string } }
}
