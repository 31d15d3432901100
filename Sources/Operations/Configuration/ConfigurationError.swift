/// What is wrong with the configuration: which key, where it stands, what it wants.
package struct ConfigurationError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The file, the variable or `the command line`.
  package let source: String
  /// The key, if it is about one.
  package let key: String?
  /// What is wrong; never a secret's value.
  package let problem: String

  /// An error by its parts.
  package init(source: String, key: String? = nil, _ problem: String) {
    self.source = source
    self.key = key
    self.problem = problem
  }

  /// One sentence.
  package var description: String {
    key.map { "\(source): \($0) \(problem)" } ?? "\(source): \(problem)"
  }
}
