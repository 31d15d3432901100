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

  /// A fault by its parts, of which what is too long to be read loses its middle: each may show what somebody has written.
  package init(source: String? = nil, key: String? = nil, _ problem: String, advice: String? = nil) {
    self.source = source.map(Self.readable)
    self.key = key.map(Self.readable)
    self.problem = Self.readable(problem)
    self.advice = advice.map(Self.readable)
  }

  /// The longest beginning and end of a part, in bytes. What is shown stands last in most problems.
  private static let (beginning, end) = (500, 200)

  private static func readable(_ text: String) -> String {
    let left = text.utf8.count - beginning - end
    // Otherwise the remark would be longer than what it stands for.
    guard left > 100 else { return text }
    let bytes = text.utf8
    let first = bytes.index(bytes.startIndex, offsetBy: beginning)
    let last = bytes.index(bytes.endIndex, offsetBy: -end)
    let scalars = text.unicodeScalars
    return "\(String(scalars[..<first]))... (\(Phrase.size(left)) left out) ...\(String(scalars[last...]))"
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
