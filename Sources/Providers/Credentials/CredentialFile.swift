import Foundation

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
      throw invalid(field, "is not of the form \(example)")
    }
    return value
  }

  /// A string that is not empty.
  func text(_ field: String, example: String) throws(CredentialError) -> String {
    guard let value = fields[field] as? String, !value.isEmpty else {
      throw missing(field, "add \"\(field)\": \"\(example)\"")
    }
    return value
  }

  /// A list of strings, not empty.
  func list(_ field: String, example: String) throws(CredentialError) -> [String] {
    guard let value = fields[field] as? [String], !value.isEmpty else {
      throw missing(field, "add \"\(field)\": [\"\(example)\"]")
    }
    return value
  }

  /// A key in PEM has letters, digits and few other signs, all of them ASCII, and a few thousand at most.
  static func canBePEM(_ text: String) -> Bool {
    text.utf8.count <= 1 << 16 && text.utf8.allSatisfy { $0 < 0x80 }
  }

  func missing(_ field: String, _ advice: String) -> CredentialError {
    CredentialError(code: .missingField, credential: name, field: field, advice: advice)
  }

  func invalid(_ field: String, _ advice: String) -> CredentialError {
    CredentialError(code: .invalidField, credential: name, field: field, advice: advice)
  }

  func invalidKey(_ field: String, _ advice: String) -> CredentialError {
    CredentialError(code: .invalidKey, credential: name, field: field, advice: advice)
  }
}
