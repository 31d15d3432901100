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
