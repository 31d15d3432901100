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
