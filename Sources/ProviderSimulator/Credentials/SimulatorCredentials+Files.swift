import Crypto
import CryptoExtras
import Foundation
import SwiftASN1
import X509

extension SimulatorCredentials {
  /// `simulator.json`: what a restarted simulator needs to be the same one.
  private struct Saved: Codable {
    var authorityKey: String
    var authority: String
    var apnsKey: String
    var keyID: String
    var teamID: String
    var serviceAccountKey: String
    var serviceAccountKeyID: String
    var clientEmail: String
    var accessTokenKey: Data
  }

  /// `apns/simulator.json` (`spec/interface.md` section 3).
  private struct APNsFile: Encodable {
    var key_file: String
    var key_id: String
    var team_id: String
    var topics: [String]
    var environment = "production"
  }

  /// A Google service-account file.
  private struct ServiceAccountFile: Encodable {
    var type = "service_account"
    var project_id: String
    var private_key_id: String
    var private_key: String
    var client_email: String
    var client_id = "100000000000000000000"
    var token_uri: String
    var universe_domain = "googleapis.com"
  }

  private static let savedName = "simulator.json"

  /// What an earlier simulator wrote to the folder; nil if there is none.
  static func read(from directory: URL) throws -> SimulatorCredentials? {
    let file = directory.appending(path: savedName)
    guard FileManager.default.fileExists(atPath: file.path) else { return nil }
    let saved = try JSONDecoder().decode(Saved.self, from: Data(contentsOf: file))
    return SimulatorCredentials(
      authorityKey: try .init(pemRepresentation: saved.authorityKey),
      authority: try Certificate(pemEncoded: saved.authority),
      apnsKey: try .init(pemRepresentation: saved.apnsKey), keyID: saved.keyID, teamID: saved.teamID,
      serviceAccountKey: try .init(pemRepresentation: saved.serviceAccountKey),
      serviceAccountKeyID: saved.serviceAccountKeyID, clientEmail: saved.clientEmail,
      accessTokenKey: SymmetricKey(data: saved.accessTokenKey))
  }

  /// Writes a `Keys` folder with these credentials, `ca.pem` and `simulator.json`. What else the
  /// folder holds stays as it is.
  func write(to directory: URL, topics: [String], project: String, tokenURI: String) throws {
    let authority = try authority.serializeAsPEM().pemString
    let saved = Saved(
      authorityKey: authorityKey.pemRepresentation, authority: authority, apnsKey: apnsKey.pemRepresentation,
      keyID: keyID, teamID: teamID, serviceAccountKey: serviceAccountKey.pkcs8PEMRepresentation,
      serviceAccountKeyID: serviceAccountKeyID, clientEmail: clientEmail,
      accessTokenKey: accessTokenKey.withUnsafeBytes { Data($0) })
    let keyFile = "AuthKey_\(keyID).p8"
    let apns = APNsFile(key_file: keyFile, key_id: keyID, team_id: teamID, topics: topics)
    let account = ServiceAccountFile(
      project_id: project, private_key_id: serviceAccountKeyID,
      private_key: serviceAccountKey.pkcs8PEMRepresentation + "\n", client_email: clientEmail, token_uri: tokenURI)

    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    for folder in ["apns", "fcm"] {
      try FileManager.default.createDirectory(
        at: directory.appending(path: folder), withIntermediateDirectories: true,
        attributes: [.posixPermissions: 0o700])
    }
    // The key before the file that names it: a `serve` that watches the folder never finds a gap.
    try Self.writePrivate(Data((apnsKey.pemRepresentation + "\n").utf8), to: directory.appending(path: "apns/" + keyFile))
    try Self.writePrivate(try encoder.encode(apns), to: directory.appending(path: "apns/simulator.json"))
    try Self.writePrivate(try encoder.encode(account), to: directory.appending(path: "fcm/default.json"))
    try Self.writePrivate(try encoder.encode(saved), to: directory.appending(path: Self.savedName))
    try Data((authority + "\n").utf8).write(to: directory.appending(path: "ca.pem"), options: .atomic)
  }

  /// Readable by its owner only from its first byte on, and there whole or not at all.
  private static func writePrivate(_ data: Data, to file: URL) throws {
    let draft = file.deletingLastPathComponent().appending(path: ".\(file.lastPathComponent).\(UUID().uuidString)")
    guard FileManager.default.createFile(atPath: draft.path, contents: data, attributes: [.posixPermissions: 0o600])
    else { throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: file.path]) }
    guard rename(draft.path, file.path) == 0 else {
      try? FileManager.default.removeItem(at: draft)
      throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: file.path])
    }
  }
}
