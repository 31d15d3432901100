import Crypto
import CryptoExtras
import Foundation
import Synchronization

@testable import Providers

/// Keys made for the tests.
enum TestKeys {
  static let apns = P256.Signing.PrivateKey()
  static let google = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048).pemRepresentation }

  static func apnsCredential(
    _ name: String = "main", keyID: String = "ABCDE12345", topics: [String] = ["org.example.chat"],
    environment: APNsCredential.Environment = .production
  ) -> APNsCredential {
    APNsCredential(
      name: name, keyID: keyID, teamID: "TEAM123456", privateKey: apns.pemRepresentation, topics: topics,
      environment: environment)
  }

  static func fcmCredential(_ name: String = "default", project: String = "demo", tokenPort: Int) throws
    -> FCMCredential
  {
    try fcmCredential(
      name, project: project,
      tokenURI: URL(string: "http://127.0.0.1:\(tokenPort)/token") ?? URL(filePath: "/"))
  }

  static func fcmCredential(
    _ name: String = "default", project: String = "demo", tokenURI: URL
  ) throws -> FCMCredential {
    FCMCredential(
      name: name, projectID: project, clientEmail: "sender@demo.iam.gserviceaccount.com", privateKeyID: "k1",
      privateKey: try google.get(),
      tokenURI: tokenURI)
  }
}
