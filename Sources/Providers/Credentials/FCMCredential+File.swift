package import Foundation
import JWTKit

extension FCMCredential {
  private static let place = "Project settings, Service accounts, Generate new private key"

  /// Reads `Keys/fcm/NAME.json`: a Google service-account file, unchanged (`Keys/README.md`).
  ///
  /// - Parameters:
  ///   - name: the file's stem.
  ///   - json: what the file holds.
  package init(name: String, json: Data) throws(CredentialError) {
    let file = try CredentialFile(name: name, json: json)
    if file.has("project_info") {
      throw file.invalid(
        "type",
        "this is the app's google-services.json: the Firebase console makes the service-account file (\(Self.place))"
      )
    }
    if file.has("key_file") {
      throw file.invalid("type", "this describes a key of Apple's: put it into apns")
    }
    guard file.has("type") else {
      throw file.missing(
        "type", "this is no service-account file: the Firebase console makes one (\(Self.place))")
    }
    guard try file.word("type", example: "service_account") == "service_account" else {
      throw file.invalid(
        "type",
        "this is another kind of Google's keys: the Firebase console makes the service-account file (\(Self.place))"
      )
    }
    let projectID = try file.word("project_id", example: "my-project")
    guard
      projectID.utf8.allSatisfy({
        $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#")
      })
    else { throw file.invalid("project_id", "is not a project id") }
    let tokenURI = URL(string: try file.word("token_uri", example: "https://oauth2.googleapis.com/token"))
    guard let tokenURI, tokenURI.scheme == "https" || tokenURI.scheme == "http", tokenURI.host() != nil else {
      throw file.invalid("token_uri", "is not a URL: Google's is https://oauth2.googleapis.com/token")
    }
    let key = try file.text("private_key", example: "-----BEGIN PRIVATE KEY-----...")
    guard CredentialFile.canBePEM(key), (try? Insecure.RSA.PrivateKey(pem: key)) != nil else {
      throw file.invalidKey(
        "private_key", "is not an RSA key: take the file from the Firebase console unchanged")
    }
    self.init(
      name: name, projectID: projectID,
      clientEmail: try file.word("client_email", example: "name@my-project.iam.gserviceaccount.com"),
      privateKeyID: try file.word("private_key_id", example: "the key's id in hex"),
      privateKey: key, tokenURI: tokenURI)
  }
}
