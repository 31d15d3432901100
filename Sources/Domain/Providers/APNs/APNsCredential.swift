package import Foundation
import NIOCore

/// A token-signing key of Apple's: `Keys/apns/*.json` with the `.p8` file it names.
package struct APNsCredential: ProviderCredential {
  /// The APNs environment of a topic's tokens: production for the App Store and TestFlight, sandbox for apps
  /// run from Xcode.
  package enum Environment: String, Sendable, Hashable, CaseIterable, Codable {
    case production, sandbox
  }

  /// The file's stem: what `/readyz` and the metrics call it.
  package var name: String
  /// Ten characters.
  package var keyID: String
  /// Ten characters.
  package var teamID: String
  /// PKCS #8 in PEM.
  package var privateKey: String
  /// The bundle ids that this key serves.
  package var topics: [String]
  package var environment: Environment

  package init(
    name: String, keyID: String, teamID: String, privateKey: String, topics: [String],
    environment: Environment
  ) {
    self.name = name
    self.keyID = keyID
    self.teamID = teamID
    self.privateKey = privateKey
    self.topics = topics
    self.environment = environment
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

extension APNsCredential {
  package static let provider = Route.Provider.apns
  package static let owner = "Apple"
  package static let noun = "key"
  package static let exampleFiles = "AuthKey_....p8 chat.json"
  package static let keyFile: CredentialKeyFile? = .init(
    member: "key_file", ending: ".p8", described: "key_id, team_id and topics")

  package var targets: [String] { topics }

  package func serves(_ target: String, isPushKit: Bool, in environment: Environment?) -> Bool {
    guard environment == nil || environment == self.environment else { return false }
    return topics.contains(target) || isPushKit && topics.contains("\(target).voip")
  }

  /// With a well-formed token, so that Apple checks the signing key whether it looks at the key or at the token first.
  package var trials: [CredentialTrial] {
    topics.filter { !$0.hasSuffix(".voip") }.map { topic in
      let notification = APNsNotification(
        token: String(repeating: "0", count: 64), topic: topic,
        payload: ByteBuffer(string: #"{"aps":{"content-available":1}}"#), pushType: .background, priority: 5,
        expiration: Date(timeIntervalSince1970: 0))
      return CredentialTrial(push: .apns(notification), target: topic, environment: environment)
    }
  }
}

extension Credentials {
  package var apns: [APNsCredential] {
    get { of() }
    set { replace(newValue) }
  }
}

extension APNs {
  /// Leaves each topic of an environment with the first credential that lists it.
  static func reconcile(_ credentials: inout Credentials, defaultProject: String?) -> [CredentialProblem] {
    var keepers: [APNsCredential.Environment: [String: String]] = [:]
    var problems: [CredentialProblem] = []
    var apns = credentials.apns
    for index in apns.indices {
      let name = apns[index].name
      let environment = apns[index].environment
      apns[index].topics.removeAll { topic in
        let keeper = keepers[environment, default: [:]][topic, default: name]
        keepers[environment, default: [:]][topic] = keeper
        guard keeper != name else { return false }
        problems.append(
          CredentialProblem(
            credential: name,
            problem: """
              topics: \(topic) is listed by \(keeper).json, too, for the same environment (\(environment.rawValue)): \
              remove it from one of them; two files may list it only if one says "production" and the other "sandbox"
              """))
        return true
      }
    }
    credentials.apns = apns
    return problems
  }
}
