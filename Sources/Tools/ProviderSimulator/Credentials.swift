import Crypto
import CryptoExtras
import Foundation

/// What a client of the simulator signs with, and the authority it trusts.
struct Credentials: Sendable {
  let authority: CertificateAuthority
  let apnsKey: P256.Signing.PrivateKey
  let keyID: String
  /// The key of the sandbox. Which key signs a provider token tells which environment is called.
  let sandboxKey: P256.Signing.PrivateKey
  let sandboxKeyID: String
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
  init() throws {
    authority = try CertificateAuthority()
    apnsKey = P256.Signing.PrivateKey()
    let alphabet = Array("ABCDEFGHJKLMNPQRSTUVWXYZ23456789")
    func identifier() -> String { String((0..<10).map { _ in alphabet[Int.random(in: 0..<alphabet.count)] }) }
    keyID = identifier()
    sandboxKey = P256.Signing.PrivateKey()
    sandboxKeyID = identifier()
    teamID = identifier()
    serviceAccountKey = try Self.rsaKey.get()
    serviceAccountKeyID = (0..<20).map { _ in String(format: "%02x", UInt8.random(in: 0...255)) }.joined()
    projectID = "push-bouncer-simulator"
  }
}

/// `apns/simulator.json`, as `Keys/README.md` has it.
struct APNsKeyFile: Codable {
  var key_file: String
  var key_id: String
  var team_id: String
  var topics: [String]
  var environment = "production"
}

/// The `Keys` folder cannot be used.
package enum CredentialsError: Error, CustomStringConvertible {
  /// A file stands where the simulator's would go, and the simulator did not write it.
  case notOurs(String)

  /// What to do.
  package var description: String {
    switch self {
    case .notOurs(let path):
      "\(path) was not written by the provider simulator: it is left alone; choose another folder"
    }
  }
}

extension Credentials {
  private enum Name {
    static let certificate = "ca.pem"
    static let certificateKey = "ca-key.pem"
    static let apns = "apns/simulator.json"
    static let sandbox = "apns/sandbox.json"
    static let serviceAccount = "fcm/default.json"
    static let bouncer = "bouncer"
  }

  /// The credentials that an earlier run left in `directory`, or nil if there are none.
  ///
  /// A folder that holds another's files in their places is refused: a real key must never be overwritten.
  init?(directory: URL) throws {
    func text(_ name: String) throws -> String? {
      let url = directory.appending(path: name)
      guard FileManager.default.fileExists(atPath: url.path) else { return nil }
      return try String(contentsOf: url, encoding: .utf8)
    }
    guard let caKey = try text(Name.certificateKey) else {
      for name in [Name.certificate, Name.apns, Name.serviceAccount] where try text(name) != nil {
        throw CredentialsError.notOurs(directory.appending(path: name).path)
      }
      return nil
    }
    guard let certificate = try text(Name.certificate), let apns = try text(Name.apns),
      let account = try text(Name.serviceAccount)
    else { return nil }
    authority = try CertificateAuthority(certificatePEM: certificate, keyPEM: caKey)
    let keyFile = try JSONDecoder().decode(APNsKeyFile.self, from: Data(apns.utf8))
    guard let key = try text("apns/\(keyFile.key_file)") else { return nil }
    apnsKey = try P256.Signing.PrivateKey(pemRepresentation: key)
    keyID = keyFile.key_id
    teamID = keyFile.team_id
    if let sandbox = try text(Name.sandbox) {
      let keyFile = try JSONDecoder().decode(APNsKeyFile.self, from: Data(sandbox.utf8))
      guard let key = try text("apns/\(keyFile.key_file)") else { return nil }
      sandboxKey = try P256.Signing.PrivateKey(pemRepresentation: key)
      sandboxKeyID = keyFile.key_id
    } else {
      let fresh = try Credentials()
      sandboxKey = fresh.sandboxKey
      sandboxKeyID = fresh.sandboxKeyID
    }
    let accountFile = try JSONDecoder().decode([String: String].self, from: Data(account.utf8))
    guard let project = accountFile["project_id"], accountFile["client_email"] == Self.clientEmail(project),
      let privateKey = accountFile["private_key"], let privateKeyID = accountFile["private_key_id"]
    else { throw CredentialsError.notOurs(directory.appending(path: Name.serviceAccount).path) }
    serviceAccountKey = try _RSA.Signing.PrivateKey(pemRepresentation: privateKey)
    serviceAccountKeyID = privateKeyID
    projectID = project
  }

  /// Writes them as a `Keys` folder (`Keys/README.md`) with `ca.pem` beside.
  ///
  /// A bouncer key pair is added only where there is none. Nothing that another wrote is touched, and a file that
  /// would not change is not written, so that a service watching the folder has nothing to reload.
  ///
  /// - Parameter hasSandbox: whether the sandbox's key is written, too.
  func write(to directory: URL, topics: [String], hasSandbox: Bool, tokenURI: String) throws {
    if let present = try Credentials(directory: directory), present.keyID != keyID {
      throw CredentialsError.notOurs(directory.path)
    }
    func put(_ text: String, _ name: String, mode: Int = 0o600) throws {
      try Self.put(Data(text.utf8), at: directory.appending(path: name), mode: mode)
    }
    func put(_ value: some Encodable, _ name: String) throws {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
      try Self.put(encoder.encode(value), at: directory.appending(path: name), mode: 0o600)
    }
    try put(authority.keyPEM, Name.certificateKey)
    try put(authority.certificatePEM, Name.certificate, mode: 0o644)
    func put(_ key: P256.Signing.PrivateKey, _ id: String, _ environment: String, _ name: String) throws {
      try put(key.pemRepresentation + "\n", "apns/AuthKey_\(id).p8")
      try put(
        APNsKeyFile(
          key_file: "AuthKey_\(id).p8", key_id: id, team_id: teamID, topics: topics, environment: environment),
        name)
    }
    try put(apnsKey, keyID, "production", Name.apns)
    if hasSandbox { try put(sandboxKey, sandboxKeyID, "sandbox", Name.sandbox) }
    // A Google service-account file.
    try put(
      [
        "type": "service_account", "project_id": projectID, "private_key_id": serviceAccountKeyID,
        "private_key": serviceAccountKey.pkcs8PEMRepresentation + "\n", "client_email": clientEmail,
        "client_id": "100000000000000000000", "auth_uri": "https://accounts.google.com/o/oauth2/auth",
        "token_uri": tokenURI, "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
        "universe_domain": "googleapis.com",
      ], Name.serviceAccount)
    // A service is not ready without a bouncer key pair (X25519, as in libsodium's sealed boxes).
    let bouncer = directory.appending(path: Name.bouncer).path
    let present = try? FileManager.default.contentsOfDirectory(atPath: bouncer)
    guard present?.contains(where: { $0.hasSuffix(".json") }) != true else { return }
    let key = Curve25519.KeyAgreement.PrivateKey()
    try put(
      [
        "public_key": key.publicKey.rawRepresentation.base64EncodedString(),
        "private_key": key.rawRepresentation.base64EncodedString(),
        "created_at": Date().formatted(.iso8601), "state": "active",
      ], "\(Name.bouncer)/simulator.json")
  }

  /// Writes a file atomically and with its final permissions, so that a private file is never readable by
  /// others.
  private static func put(_ data: Data, at url: URL, mode: Int) throws {
    let files = FileManager.default
    if let present = try? Data(contentsOf: url), present == data { return }
    try files.createDirectory(
      at: url.deletingLastPathComponent(), withIntermediateDirectories: true,
      attributes: [.posixPermissions: 0o700])
    let temporary = url.deletingLastPathComponent().appending(path: ".\(url.lastPathComponent).new")
    try? files.removeItem(at: temporary)
    guard files.createFile(atPath: temporary.path, contents: data, attributes: [.posixPermissions: mode])
    else {
      throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: temporary.path])
    }
    guard rename(temporary.path, url.path) == 0 else {
      throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: url.path])
    }
  }
}
