package import Foundation

/// A Google service account: `Keys/fcm/*.json`.
package struct FCMCredential: ProviderCredential {
  /// The file's stem: what `/readyz` and the metrics call it.
  package var name: String
  package var projectID: String
  /// The service account's address, `iss` of the assertion.
  package var clientEmail: String
  /// `kid` of the assertion.
  package var privateKeyID: String
  /// The RSA key, PKCS #8 in PEM.
  package var privateKey: String
  /// Google's OAuth endpoint, `aud` of the assertion.
  package var tokenURI: URL

  package init(
    name: String, projectID: String, clientEmail: String, privateKeyID: String, privateKey: String,
    tokenURI: URL
  ) {
    self.name = name
    self.projectID = projectID
    self.clientEmail = clientEmail
    self.privateKeyID = privateKeyID
    self.privateKey = privateKey
    self.tokenURI = tokenURI
  }
}

extension FCMCredential {
  private static let place = "Project settings, Service accounts, Generate new private key"

  /// Reads `Keys/fcm/NAME.json`: a Google service-account file, unchanged (`Keys/README.md`).
  ///
  /// - Parameters:
  ///   - name: the file's stem.
  ///   - json: the content of the file.
  ///   - directory: the folder it lies in; not needed.
  package init(
    name: String, json: Data, directory: URL = URL(filePath: "/")
  ) throws(CredentialError) {
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

extension FCMCredential {
  package static let provider = Route.Provider.fcm
  package static let owner = "Google"
  package static let noun = "service account"
  package static let exampleFiles = "service-account.json"

  package var targets: [String] { [projectID] }

  package var trials: [CredentialTrial] {
    let message = FCMMessage(token: "doctor", project: projectID, data: [:], isOnlyValidated: true)
    return [CredentialTrial(push: .fcm(message), target: projectID)]
  }
}

extension Credentials {
  /// One per project.
  package var fcm: [FCMCredential] {
    get { of() }
    set { replace(newValue) }
  }

  /// Whether some service account is of the default project.
  package var hasDefaultProject: Bool {
    guard let defaultProject else { return !fcm.isEmpty }
    return fcm.contains { $0.projectID == defaultProject }
  }
}

extension FCM {
  /// Finds the default project.
  static func reconcile(_ credentials: inout Credentials, defaultProject: String?) -> [CredentialProblem] {
    let projects = credentials.fcm
    let standard = projects.first { $0.name == (defaultProject ?? "default") }
    credentials.defaultProject = (standard ?? (projects.count == 1 ? projects.first : nil))?.projectID
    guard let defaultProject, standard == nil else { return [] }
    return [
      CredentialProblem(
        credential: defaultProject, problem: "is not there, but fcm.default_project names it")
    ]
  }
}
