package import Foundation

/// The fields of a credential's JSON file.
struct CredentialFile {
  let name: String
  private let fields: [String: Any]

  init(name: String, json: Data) throws(CredentialError) {
    guard let fields = (try? JSONSerialization.jsonObject(with: json)) as? [String: Any] else {
      throw CredentialError(
        code: .notJSON, credential: name, field: nil, advice: "the file is not a JSON object")
    }
    self.name = name
    self.fields = fields
  }

  func has(_ field: String) -> Bool { fields[field] != nil }

  /// A string of printable ASCII without spaces.
  func word(_ field: String, example: String) throws(CredentialError) -> String {
    let value = try text(field, example: example)
    guard value.count <= 256, value.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw fault(.invalidField, field, "is not of the form \(example)")
    }
    return value
  }

  func text(_ field: String, example: String) throws(CredentialError) -> String {
    guard let value = fields[field] as? String, !value.isEmpty else {
      throw fault(.missingField, field, "\(problem(of: field, "text")): write \"\(field)\": \"\(example)\"")
    }
    return value
  }

  /// A list of strings, not empty.
  func list(_ field: String, example: String) throws(CredentialError) -> [String] {
    guard let value = fields[field] as? [String], !value.isEmpty else {
      throw fault(
        .missingField, field, "\(problem(of: field, "list of texts")): write \"\(field)\": [\"\(example)\"]")
    }
    return value
  }

  /// What is wrong with a field that has no value of the right type.
  private func problem(of field: String, _ type: String) -> String {
    guard let value = fields[field] else { return "is missing" }
    let isEmpty = (value as? String)?.isEmpty ?? (value as? [Any])?.isEmpty ?? false
    return isEmpty ? "is empty" : "is no \(type)"
  }

  func fault(_ code: CredentialError.Code, _ field: String, _ advice: String) -> CredentialError {
    CredentialError(code: code, credential: name, field: field, advice: advice)
  }
}

extension APNsCredential {
  /// Reads `Keys/apns/NAME.json` (`Keys/README.md`) and the key file it names.
  ///
  /// - Parameters:
  ///   - name: the file's stem.
  ///   - json: the content of the file.
  ///   - directory: the folder it lies in, where `key_file` is too.
  package init(name: String, json: Data, directory: URL) throws(CredentialError) {
    let file = try CredentialFile(name: name, json: json)
    let keyID = try Self.identifier("key_id", in: file)
    let teamID = try Self.identifier("team_id", in: file)
    let topics = try file.list("topics", example: "org.example.chat")
    for topic in topics where !Self.isTopic(topic) {
      throw file.fault(
        .invalidField, "topics", "a bundle id has letters, digits, dots and hyphens: org.example.chat")
    }
    guard let environment = Environment(rawValue: try file.word("environment", example: "production")) else {
      throw file.fault(
        .invalidField, "environment", "say \"production\" or, for apps run from Xcode, \"sandbox\"")
    }
    self.init(
      name: name, keyID: keyID, teamID: teamID, privateKey: try Self.key(of: file, in: directory),
      topics: topics, environment: environment)
  }

  private static func identifier(_ field: String, in file: CredentialFile) throws(CredentialError) -> String {
    let value = try file.word(field, example: "ABCDE12345")
    guard value.count == 10, value.utf8.allSatisfy(\.isAlphanumeric) else {
      throw file.fault(
        .invalidField, field,
        "has \(value.count) characters: it is ten letters and digits, as Apple's developer site shows it"
      )
    }
    return value
  }

  private static func key(of file: CredentialFile, in directory: URL) throws(CredentialError) -> String {
    let keyFile = try file.text("key_file", example: "AuthKey_ABCDE12345.p8")
    guard !keyFile.contains("/"), !keyFile.contains("\0"), !keyFile.hasPrefix(".") else {
      throw file.fault(.invalidField, "key_file", "name a file in the same folder, without a path")
    }
    let path = directory.appending(path: keyFile)
    guard FileManager.default.fileExists(atPath: path.path) else {
      throw file.fault(
        .unreadableKeyFile, "key_file",
        "\(keyFile) is not beside this file: put it there, or correct the name")
    }
    guard let bytes = try? Data(contentsOf: path) else {
      throw file.fault(
        .unreadableKeyFile, "key_file", "\(keyFile) cannot be read: let the service's user read it")
    }
    let key = PrivateKeyText(bytes)
    guard key.kind == .p256 else {
      throw file.fault(
        .invalidKey, "key_file",
        """
        \(keyFile) \(key.kind.sentence); Apple's is a key on the curve P-256: take the .p8 file from Apple's developer \
        site (Keys, Apple Push Notifications service) unchanged
        """)
    }
    return key.text
  }

  private static func isTopic(_ topic: String) -> Bool {
    !topic.isEmpty && topic.count <= 255
      && topic.utf8.allSatisfy { $0.isAlphanumeric || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") }
  }
}

extension FCMCredential {
  private static let place = "Project settings, Service accounts, Generate new private key"

  /// Reads `Keys/fcm/NAME.json`: a Google service-account file, unchanged (`Keys/README.md`).
  ///
  /// - Parameters:
  ///   - name: the file's stem.
  ///   - json: the content of the file.
  package init(name: String, json: Data) throws(CredentialError) {
    let file = try CredentialFile(name: name, json: json)
    if file.has("project_info") {
      throw file.fault(
        .invalidField, "type",
        "this is the app's google-services.json: the Firebase console makes the service-account file (\(Self.place))"
      )
    }
    if file.has("key_file") {
      throw file.fault(.invalidField, "type", "this describes one of Apple's keys: put it into Keys/apns")
    }
    guard file.has("type") else {
      throw file.fault(
        .missingField, "type",
        "this is no service-account file: the Firebase console makes one (\(Self.place))")
    }
    guard try file.word("type", example: "service_account") == "service_account" else {
      throw file.fault(
        .invalidField, "type",
        "this is another kind of Google's keys: the Firebase console makes the service-account file (\(Self.place))"
      )
    }
    let projectID = try file.word("project_id", example: "my-project")
    guard
      projectID.utf8.allSatisfy({
        $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#")
      })
    else { throw file.fault(.invalidField, "project_id", "is not a project id") }
    let tokenURI = URL(string: try file.word("token_uri", example: "https://oauth2.googleapis.com/token"))
    guard let tokenURI, tokenURI.scheme == "https" || tokenURI.scheme == "http", tokenURI.host() != nil else {
      throw file.fault(
        .invalidField, "token_uri", "is not a URL: Google's is https://oauth2.googleapis.com/token")
    }
    let text = try file.text("private_key", example: "-----BEGIN PRIVATE KEY-----...")
    let key = PrivateKeyText(Data(text.utf8))
    guard key.kind == .rsa else {
      throw file.fault(
        .invalidKey, "private_key",
        "\(key.kind.sentence); Google's is an RSA key: take the file from the Firebase console unchanged")
    }
    self.init(
      name: name, projectID: projectID,
      clientEmail: try file.word("client_email", example: "name@my-project.iam.gserviceaccount.com"),
      privateKeyID: try file.word("private_key_id", example: "the key's id in hex"),
      privateKey: key.text, tokenURI: tokenURI)
  }
}
