internal import Basics
package import Foundation

/// A token-signing key of Apple's: `Keys/apns/*.json` with the `.p8` file it names.
package struct APNsCredential: Sendable, Hashable {
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

/// A Google service account: `Keys/fcm/*.json`.
package struct FCMCredential: Sendable, Hashable {
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

package struct Credentials: Sendable, Hashable {
  /// A topic is listed once for each environment (``removeClashes()``).
  package var apns: [APNsCredential]
  /// One per project.
  package var fcm: [FCMCredential]
  /// The project of messages that name none.
  package var defaultProject: String?

  package init(apns: [APNsCredential] = [], fcm: [FCMCredential] = [], defaultProject: String? = nil) {
    self.apns = apns
    self.fcm = fcm
    self.defaultProject = defaultProject
  }

  /// A topic that two credentials list for one environment.
  package struct Clash: Sendable, Hashable {
    package let topic: String
    package let environment: APNsCredential.Environment
    /// The name of the credential that keeps the topic.
    package let keeper: String
    /// The name of the other one.
    package let other: String
  }

  /// Leaves each topic of an environment with the first credential that lists it.
  package mutating func removeClashes() -> [Clash] {
    var keepers: [APNsCredential.Environment: [String: String]] = [:]
    var clashes: [Clash] = []
    for index in apns.indices {
      let name = apns[index].name
      let environment = apns[index].environment
      apns[index].topics.removeAll { topic in
        let keeper = keepers[environment, default: [:]][topic, default: name]
        keepers[environment, default: [:]][topic] = keeper
        guard keeper != name else { return false }
        clashes.append(Clash(topic: topic, environment: environment, keeper: keeper, other: name))
        return true
      }
    }
    return clashes
  }
}

/// What is wrong with a credential's file and how to fix it. Never contains key material.
package struct CredentialError: Error, Sendable, Hashable, CustomStringConvertible {
  package enum Code: String, Sendable, Hashable {
    /// The file is not a JSON object.
    case notJSON
    /// A field is missing or has the wrong type.
    case missingField
    case invalidField
    case unreadableKeyFile
    /// The private key is unreadable or of the wrong kind.
    case invalidKey
  }

  package let code: Code
  /// The credential's name: its file's stem.
  package let credential: String
  package let field: String?
  package let advice: String

  /// The field and the advice, to be shown after the file's name.
  package var description: String { (field.map { "\($0): " } ?? "") + advice }
}

extension CredentialError: Readable {}
