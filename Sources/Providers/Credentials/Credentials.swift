package import Foundation

/// A token-signing key of Apple's: `Keys/apns/*.json` with the `.p8` file it names.
package struct APNsCredential: Sendable, Hashable {
  /// Where the topic's tokens come from: an app from the App Store or TestFlight, or one run from Xcode.
  package enum Environment: String, Sendable, Hashable {
    case production, sandbox
  }

  /// The file's stem: what `/readyz` and the metrics call it.
  package var name: String
  /// The key's id, ten characters.
  package var keyID: String
  /// The developer team's id, ten characters.
  package var teamID: String
  /// The private key, PKCS #8 in PEM.
  package var privateKey: String
  /// The bundle ids that this key serves.
  package var topics: [String]
  /// Apple's environment.
  package var environment: Environment

  /// A credential by its parts.
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
  /// The Firebase project id.
  package var projectID: String
  /// The service account's address, `iss` of the assertion.
  package var clientEmail: String
  /// The id of the private key, `kid` of the assertion.
  package var privateKeyID: String
  /// The RSA key, PKCS #8 in PEM.
  package var privateKey: String
  /// Google's OAuth endpoint, `aud` of the assertion.
  package var tokenURI: URL

  /// A credential by its parts.
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

/// All credentials in use at a moment.
package struct Credentials: Sendable, Hashable {
  /// Apple keys; a topic belongs to the first that lists it.
  package var apns: [APNsCredential]
  /// Service accounts, one per project.
  package var fcm: [FCMCredential]
  /// The project of messages that name none.
  package var defaultProject: String?

  /// A set of credentials.
  package init(apns: [APNsCredential] = [], fcm: [FCMCredential] = [], defaultProject: String? = nil) {
    self.apns = apns
    self.fcm = fcm
    self.defaultProject = defaultProject
  }
}

/// What is wrong with a credential's file. Says what to mend and never shows key material.
package struct CredentialError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What kind of fault.
  package enum Code: String, Sendable, Hashable {
    /// The file is not a JSON object.
    case notJSON
    /// A field is missing or has the wrong type.
    case missingField
    /// A field's value cannot be right.
    case invalidField
    /// The key file cannot be read.
    case unreadableKeyFile
    /// The private key is no key, or not one of the kind that is wanted.
    case invalidKey
  }

  /// What kind of fault.
  package let code: Code
  /// The credential's name: its file's stem.
  package let credential: String
  /// The field it is about, if it is about one.
  package let field: String?
  /// What to do.
  package let advice: String

  /// For people, to follow the file's name: the field and what to do.
  package var description: String { (field.map { "\($0): " } ?? "") + advice }
}
