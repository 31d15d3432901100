import Basics
package import Foundation

/// What a file below `Keys` lets this service send.
package protocol ProviderCredential: Sendable, Hashable {
  static var provider: Route.Provider { get }
  /// Whose it is, and what they call it: `Apple`, `key`.
  static var owner: String { get }
  static var noun: String { get }
  /// Names that its files usually have, for a command.
  static var exampleFiles: String { get }
  /// The file that lies beside its own; nil if none does.
  static var keyFile: CredentialKeyFile? { get }

  /// The file's stem: what `/readyz` and the metrics call it.
  var name: String { get }
  /// The topics or projects that it serves.
  var targets: [String] { get }
  /// Pushes to a token that cannot exist. A provider that works refuses the token and nothing else.
  var trials: [CredentialTrial] { get }

  /// Reads `Keys/PROVIDER/NAME.json` (`Keys/README.md`), and the file that it names.
  ///
  /// - Parameters:
  ///   - name: the file's stem.
  ///   - json: the content of the file.
  ///   - directory: the folder it lies in.
  init(name: String, json: Data, directory: URL) throws(CredentialError)

  /// Whether it serves an app or project that devices are registered for.
  ///
  /// - Parameters:
  ///   - isPushKit: whether their tokens are for calls only.
  ///   - environment: of APNs; nil for either.
  func serves(_ target: String, isPushKit: Bool, in environment: APNsCredential.Environment?) -> Bool
}

extension ProviderCredential {
  package static var keyFile: CredentialKeyFile? { nil }

  package func serves(_ target: String, isPushKit: Bool, in environment: APNsCredential.Environment?) -> Bool
  {
    targets.contains(target)
  }

  /// As logs and commands show it: `apns:main`.
  package var route: String { "\(Self.provider.rawValue):\(name)" }
}

/// A key in a file of its own.
package struct CredentialKeyFile: Sendable {
  /// The member of the credential's file that names it.
  package let member: String
  package let ending: String
  /// What the credential's file says of it.
  package let described: String
}

/// A push that tries a credential out.
package struct CredentialTrial: Sendable {
  package let push: Push
  package let target: String
  /// Of APNs.
  package var environment: APNsCredential.Environment?
}

/// What is wrong with a credential beside others.
package struct CredentialProblem: Sendable, Hashable {
  package let credential: String
  package let problem: String
}

package struct Credentials: Sendable {
  package static let types = Route.Provider.allCases.compactMap { $0.definition.credential }

  package var all: [any ProviderCredential]
  /// The Firebase project of messages that name none.
  package var defaultProject: String?

  /// - Parameter apns: a topic is listed once for each environment (``reconcile(defaultProject:)``).
  package init(apns: [APNsCredential] = [], fcm: [FCMCredential] = [], defaultProject: String? = nil) {
    all = apns + fcm
    self.defaultProject = defaultProject
  }

  package init(_ all: [any ProviderCredential], defaultProject: String? = nil) {
    self.all = all
    self.defaultProject = defaultProject
  }

  /// Those of a provider.
  package subscript(provider: Route.Provider) -> [any ProviderCredential] {
    all.filter { type(of: $0).provider == provider }
  }

  func of<Credential: ProviderCredential>() -> [Credential] { all.compactMap { $0 as? Credential } }

  /// Puts these in the place of those of the same provider.
  mutating func replace<Credential: ProviderCredential>(_ credentials: [Credential]) {
    let place = all.firstIndex { $0 is Credential } ?? all.endIndex
    all.removeAll { $0 is Credential }
    all.insert(contentsOf: credentials, at: place)
  }

  /// Settles what several claim.
  ///
  /// - Parameter defaultProject: the name of the credential for messages that name no project (`fcm.default_project`).
  package mutating func reconcile(
    defaultProject: String?
  ) -> [(provider: Route.Provider, problem: CredentialProblem)] {
    var problems: [(Route.Provider, CredentialProblem)] = []
    for provider in Route.Provider.allCases {
      problems += provider.definition.reconcile(&self, defaultProject: defaultProject).map { (provider, $0) }
    }
    return problems
  }
}

extension Credentials: Equatable {
  package static func == (left: Self, right: Self) -> Bool {
    left.defaultProject == right.defaultProject
      && left.all.map { AnyHashable($0) } == right.all.map { AnyHashable($0) }
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
