import Crypto
import CryptoExtras
import Foundation
import Testing

@testable import Providers

@Suite("Credential files")
struct CredentialFileTests {
  /// A folder with a key file in it.
  static func folder(key: String = TestKeys.apns.pemRepresentation) throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appending(path: "push-bouncer-keys-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try key.write(to: folder.appending(path: "AuthKey_X.p8"), atomically: true, encoding: .utf8)
    return folder
  }

  static func apns(_ change: (inout [String: Any]) -> Void = { _ in }) throws -> Data {
    var fields: [String: Any] = [
      "key_file": "AuthKey_X.p8", "key_id": "ABCDE12345", "team_id": "TEAM123456",
      "topics": ["org.example.chat", "org.example.beta"], "environment": "sandbox",
    ]
    change(&fields)
    return try JSONSerialization.data(withJSONObject: fields)
  }

  static func fcm(_ change: (inout [String: Any]) -> Void = { _ in }) throws -> Data {
    var fields: [String: Any] = [
      "type": "service_account", "project_id": "demo", "private_key_id": "k1",
      "private_key": try TestKeys.google.get(),
      "client_email": "sender@demo.iam.gserviceaccount.com", "client_id": "1",
      "token_uri": "https://oauth2.googleapis.com/token",
    ]
    change(&fields)
    return try JSONSerialization.data(withJSONObject: fields)
  }

  @Test func `An APNs file and its key are read`() throws {
    let credential = try APNsCredential(name: "main", json: Self.apns(), directory: Self.folder())
    #expect(
      credential
        == TestKeys.apnsCredential(
          topics: ["org.example.chat", "org.example.beta"], environment: .sandbox))
  }

  static let apnsFaults: [(String, (any Sendable)?, CredentialError.Code)] = [
    ("key_file", nil, .missingField), ("key_file", "other.p8", .unreadableKeyFile),
    ("key_file", "../AuthKey_X.p8", .invalidField), ("key_file", "/etc/passwd", .invalidField),
    ("key_id", nil, .missingField), ("key_id", 5, .missingField), ("key_id", "SHORT", .invalidField),
    ("key_id", "ABCDE-1234", .invalidField), ("team_id", "", .missingField),
    ("team_id", "TEAM\n12345", .invalidField),
    ("topics", nil, .missingField), ("topics", [String](), .missingField),
    ("topics", "org.example", .missingField),
    ("topics", ["org example"], .invalidField), ("environment", nil, .missingField),
    ("environment", "staging", .invalidField),
  ]

  @Test(arguments: apnsFaults)
  func `A fault in an APNs file names the field`(
    fault: (field: String, value: (any Sendable)?, code: CredentialError.Code)
  ) throws {
    let json = try Self.apns { $0[fault.field] = fault.value }
    let error = try #require(throws: CredentialError.self) {
      _ = try APNsCredential(name: "main", json: json, directory: Self.folder())
    }
    #expect(error.code == fault.code)
    #expect(error.field == fault.field)
    #expect(error.description.hasPrefix("\(fault.field): "))
  }

  private static let cutOff = String(TestKeys.apns.pemRepresentation.prefix(60))

  @Test(arguments: [
    ("", "is empty"), ("hunter2", "is no PEM file"), (cutOff, "is cut off"),
    (P384.Signing.PrivateKey().pemRepresentation, "is a key on another curve"),
    (P256.Signing.PrivateKey().publicKey.pemRepresentation, "is a public key"),
    (
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", "has a passphrase"
    ),
    ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "is a certificate and no key"),
    ("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n", "is damaged"),
    ("kü", "is no ASCII text"),
  ])
  func `What is in the place of Apple's key is named`(text: String, kind: String) throws {
    let error = try #require(throws: CredentialError.self) {
      _ = try APNsCredential(name: "main", json: Self.apns(), directory: Self.folder(key: text))
    }
    #expect(error.description.contains("AuthKey_X.p8 \(kind)"), "\(error)")
    #expect(!error.description.contains("hunter2"))
  }

  @Test func `A byte order mark before Apple's key is passed over`() throws {
    let key = TestKeys.apns.pemRepresentation
    let credential = try APNsCredential(
      name: "main", json: Self.apns(), directory: Self.folder(key: "\u{FEFF}\(key)"))
    #expect(credential.privateKey == key)
  }

  /// As OpenSSL writes it: out of a PKCS #12 file, and with `ecparam -genkey`.
  @Test(arguments: [
    "Bag Attributes\n    friendlyName: Chat\nKey Attributes: <No Attributes>\n",
    "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n", "\r\n \n",
    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
  ])
  func `What stands around Apple's key is passed over`(before: String) throws {
    let key = TestKeys.apns.pemRepresentation
    let folder = try Self.folder(key: "\(before)\(key)\nThe end\n")
    let credential = try APNsCredential(name: "main", json: Self.apns(), directory: folder)
    #expect(credential.privateKey == key)
  }

  @Test func `A file with two keys is no key, as nobody knows which is meant`() throws {
    let key = TestKeys.apns.pemRepresentation
    let error = try #require(throws: CredentialError.self) {
      _ = try APNsCredential(name: "main", json: Self.apns(), directory: Self.folder(key: "\(key)\n\(key)"))
    }
    #expect(error.description.contains("AuthKey_X.p8 has several keys"), "\(error)")
  }

  @Test func `A field of another type is told from one that is missing`() throws {
    for (value, state) in [
      (nil, "is missing"), ("org.example", "is no list of texts"), ([String](), "is empty"),
    ]
      as [((any Sendable)?, String)]
    {
      let json = try Self.apns { $0["topics"] = value }
      let error = try #require(throws: CredentialError.self) {
        _ = try APNsCredential(name: "main", json: json, directory: Self.folder())
      }
      #expect(error.description == "topics: \(state): write \"topics\": [\"org.example.chat\"]")
    }
  }

  @Test func `A key of another kind is refused at once, without showing it`() throws {
    for key in [try TestKeys.google.get(), P384.Signing.PrivateKey().pemRepresentation, "secretsecret"] {
      let folder = try Self.folder(key: key)
      let error = try #require(throws: CredentialError.self) {
        _ = try APNsCredential(name: "main", json: Self.apns(), directory: folder)
      }
      #expect(error.code == .invalidKey)
      #expect(!"\(error)".contains(key.dropFirst(40).prefix(20)) || key.count < 60)
      #expect(!"\(error)".contains("secretsecret"))
    }
  }

  @Test func `A service account is read`() throws {
    let credential = try FCMCredential(name: "default", json: Self.fcm())
    #expect(credential.projectID == "demo")
    #expect(credential.clientEmail == "sender@demo.iam.gserviceaccount.com")
    #expect(credential.privateKeyID == "k1")
    #expect(credential.tokenURI.absoluteString == "https://oauth2.googleapis.com/token")
    #expect(credential.privateKey == (try TestKeys.google.get()).trimmingCharacters(in: .newlines))
  }

  static let fcmFaults: [(String, (any Sendable)?, CredentialError.Code)] = [
    ("type", nil, .missingField), ("type", "authorized_user", .invalidField),
    ("project_id", nil, .missingField),
    ("project_id", "a/../b", .invalidField), ("client_email", nil, .missingField),
    ("client_email", "a b", .invalidField), ("private_key_id", nil, .missingField),
    ("private_key", nil, .missingField), ("private_key", "secretsecret", .invalidKey),
    ("token_uri", nil, .missingField), ("token_uri", "ftp://x/y", .invalidField),
    ("token_uri", "x", .invalidField),
  ]

  @Test(arguments: fcmFaults)
  func `A fault in a service account names the field`(
    fault: (field: String, value: (any Sendable)?, code: CredentialError.Code)
  ) throws {
    let json = try Self.fcm { $0[fault.field] = fault.value }
    let error = try #require(throws: CredentialError.self) {
      _ = try FCMCredential(name: "default", json: json)
    }
    #expect(error.code == fault.code)
    #expect(error.field == fault.field)
    #expect(!error.description.contains("secretsecret"))
  }

  @Test(arguments: ["", "[]", "\"x\"", "{", "nonsense"]) func `What is no JSON object is told as such`(
    text: String
  ) {
    #expect(throws: CredentialError.self) { _ = try FCMCredential(name: "x", json: Data(text.utf8)) }
    #expect(throws: CredentialError.self) {
      _ = try APNsCredential(name: "x", json: Data(text.utf8), directory: URL(filePath: "/"))
    }
  }
}
