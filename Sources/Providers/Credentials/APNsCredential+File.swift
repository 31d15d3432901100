package import Foundation
import JWTKit

extension APNsCredential {
  /// Reads `Keys/apns/NAME.json` (`Keys/README.md`) and the key file it names.
  ///
  /// - Parameters:
  ///   - name: the file's stem.
  ///   - json: what the file holds.
  ///   - directory: the folder it lies in, where `key_file` is too.
  package init(name: String, json: Data, directory: URL) throws(CredentialError) {
    let file = try CredentialFile(name: name, json: json)
    let keyID = try Self.identifier("key_id", in: file)
    let teamID = try Self.identifier("team_id", in: file)
    let topics = try file.list("topics", example: "org.example.chat")
    for topic in topics where !Self.isTopic(topic) {
      throw file.invalid("topics", "a bundle id has letters, digits, dots and hyphens: org.example.chat")
    }
    guard let environment = Environment(rawValue: try file.word("environment", example: "production")) else {
      throw file.invalid("environment", "say \"production\" or, for apps run from Xcode, \"sandbox\"")
    }
    self.init(
      name: name, keyID: keyID, teamID: teamID, privateKey: try Self.key(of: file, in: directory),
      topics: topics, environment: environment)
  }

  private static func identifier(_ field: String, in file: CredentialFile) throws(CredentialError) -> String {
    let value = try file.word(field, example: "ABCDE12345")
    guard value.count == 10, value.utf8.allSatisfy({ isLetterOrDigit($0) }) else {
      throw file.invalid(field, "has ten letters and digits, as Apple's developer site shows it")
    }
    return value
  }

  private static func key(of file: CredentialFile, in directory: URL) throws(CredentialError) -> String {
    let keyFile = try file.text("key_file", example: "AuthKey_ABCDE12345.p8")
    guard !keyFile.contains("/"), !keyFile.contains("\0"), !keyFile.hasPrefix(".") else {
      throw file.invalid("key_file", "name a file in the same folder, without a path")
    }
    guard let key = try? String(contentsOf: directory.appending(path: keyFile), encoding: .utf8) else {
      throw CredentialError(
        code: .unreadableKeyFile, credential: file.name, field: "key_file",
        advice:
          "\(keyFile) is not beside this file, or cannot be read: put it there and let the service read it")
    }
    guard CredentialFile.canBePEM(key), (try? ES256PrivateKey(pem: key)) != nil else {
      throw file.invalidKey(
        "key_file", "is not an APNs signing key: take the .p8 file from Apple's developer site unchanged")
    }
    return key
  }

  private static func isTopic(_ topic: String) -> Bool {
    !topic.isEmpty && topic.count <= 255
      && topic.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") }
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    byte < 0x80 && (Character(UnicodeScalar(byte)).isLetter || Character(UnicodeScalar(byte)).isNumber)
  }
}
