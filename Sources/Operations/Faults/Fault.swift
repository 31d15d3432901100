/// Something that a person has to mend: where it is, what is wrong, and what to do.
///
/// Everything that a command, the start of the service or `doctor` has to complain about is one of these, or becomes one
/// in this folder: no other library's words reach a person.
package struct Fault: Error, Sendable, Hashable, CustomStringConvertible {
  /// Where it stands: a file, perhaps with a line, a variable or `the command line`; without a `key` it is itself what is
  /// wrong. nil if `key` says it all.
  package let source: String?
  /// The setting, or what else is wrong there.
  package let key: String?
  /// What is wrong; never a secret's value.
  package let problem: String
  /// What to do; nil if `problem` says that already.
  package let advice: String?

  /// A fault by its parts.
  package init(source: String? = nil, key: String? = nil, _ problem: String, advice: String? = nil) {
    self.source = source
    self.key = key
    self.problem = problem
    self.advice = advice
  }

  /// What is wrong and where.
  package var detail: String {
    switch (source, key) {
    case (let source?, let key?): "\(source): \(key) \(problem)"
    case (let subject?, nil), (nil, let subject?): "\(subject) \(problem)"
    case (nil, nil): problem
    }
  }

  /// One sentence with everything.
  package var description: String { advice.map { "\(detail); \($0)" } ?? detail }
}
