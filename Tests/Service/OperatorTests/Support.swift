import Crypto
import CryptoExtras
import Foundation
import Logging
import Operator
import Sealing
import Synchronization
import TestSupport
import Testing

/// A key folder made for a test.
struct TestFolder {
  let url: URL

  var path: String { url.path }

  /// An RSA key takes long to make: one serves all tests.
  static let google = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048).pemRepresentation }

  func write(_ name: String, _ text: String, mode: Int = 0o600) throws {
    let file = url.appending(path: name)
    try FileManager.default.createDirectory(
      at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: file, options: .atomic)
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
  }

  func remove(_ name: String) throws {
    try FileManager.default.removeItem(at: url.appending(path: name))
  }

  func writeAPNs(
    _ name: String, topic: String = "org.example.chat", environment: String = "production",
    key: P256.Signing.PrivateKey = P256.Signing.PrivateKey()
  ) throws {
    try write("apns/AuthKey_\(name).p8", key.pemRepresentation)
    try write(
      "apns/\(name).json",
      """
      {"key_file": "AuthKey_\(name).p8", "key_id": "ABCDE12345", "team_id": "TEAM123456", \
      "topics": ["\(topic)"], "environment": "\(environment)"}
      """)
  }

  func writeFCM(_ name: String, project: String) throws {
    let account = [
      "type": "service_account", "project_id": project, "private_key_id": "k1",
      "private_key": try Self.google.get(),
      "client_email": "sender@demo.iam.gserviceaccount.com",
      "token_uri": "https://oauth2.googleapis.com/token",
    ]
    try write("fcm/\(name).json", String(decoding: try JSONEncoder().encode(account), as: UTF8.self))
  }

  @discardableResult
  func writeBouncerKey() throws -> String {
    try BouncerKeyFiles(directory: path).generate().publicKey
  }
}

/// Runs a test with a key folder of its own.
func withKeyFolder<Result>(_ body: (TestFolder) async throws -> Result) async throws -> Result {
  try await withTemporaryFolder { try await body(TestFolder(url: $0)) }
}

extension Trait where Self == Fixture<TestFolder> {
  /// A key folder of the test's own.
  static var keyFolder: Self { Fixture { try await withKeyFolder($0) } }
}
