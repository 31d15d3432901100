import Crypto
import CryptoExtras
import Foundation

/// What a client of the simulator signs with, and the authority it trusts.
struct Credentials: Sendable {
  let authority: CertificateAuthority
  let apnsKey: P256.Signing.PrivateKey
  let keyID: String
  let teamID: String
  let serviceAccountKey: _RSA.Signing.PrivateKey
  let serviceAccountKeyID: String
  let projectID: String

  /// Who the service account is: the `iss` of its assertions.
  var clientEmail: String { Self.clientEmail(projectID) }

  static func clientEmail(_ projectID: String) -> String { "simulator@\(projectID).iam.gserviceaccount.com" }

  /// One for all simulators of a process: finding the primes takes longer than all the rest of a start.
  private static let rsaKey = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

  /// Fresh ones.
  init(projectID: String) throws {
    authority = try CertificateAuthority()
    apnsKey = P256.Signing.PrivateKey()
    let alphabet = Array("ABCDEFGHJKLMNPQRSTUVWXYZ23456789")
    func identifier() -> String { String((0..<10).map { _ in alphabet[Int.random(in: 0..<alphabet.count)] }) }
    keyID = identifier()
    teamID = identifier()
    serviceAccountKey = try Self.rsaKey.get()
    serviceAccountKeyID = (0..<20).map { _ in String(format: "%02x", UInt8.random(in: 0...255)) }.joined()
    self.projectID = projectID
  }
}

/// `apns/simulator.json`, as `Keys/README.md` has it.
struct APNsKeyFile: Codable {
  var key_file: String
  var key_id: String
  var team_id: String
  var topics: [String]
  var environment: String
}

/// `fcm/default.json`: a Google service-account file.
struct ServiceAccountFile: Codable {
  var type = "service_account"
  var project_id: String
  var private_key_id: String
  var private_key: String
  var client_email: String
  var client_id = "100000000000000000000"
  var auth_uri = "https://accounts.google.com/o/oauth2/auth"
  var token_uri: String
  var auth_provider_x509_cert_url = "https://www.googleapis.com/oauth2/v1/certs"
  var universe_domain = "googleapis.com"
}
