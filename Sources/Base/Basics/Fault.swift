/// A problem for a person to fix: where it is, what is wrong, and what to do.
///
/// Every error that a command, the start of the service or `doctor` reports is a ``Fault`` or is converted to
/// one here, so that no other library's error message reaches a person.
package struct Fault: Error, Sendable, Hashable, CustomStringConvertible {
  /// A file, perhaps with a line, a variable, or `the command line`; nil if `key` is enough. Without a `key` it is the
  /// subject of `problem`.
  package let source: String?
  /// The setting or other part of the source that is wrong, which is the subject of `problem`; nil for all of it.
  package let key: String?
  /// What is wrong; never contains a secret.
  package let problem: String
  /// How to fix it; nil if `problem` already says so.
  package let advice: String?

  /// Creates a fault. The middle of very long parts is left out, since they may contain text from outside.
  package init(source: String? = nil, key: String? = nil, _ problem: String, advice: String? = nil) {
    self.source = source.map(Self.readable)
    self.key = key.map(Self.readable)
    self.problem = Self.readable(problem)
    self.advice = advice.map(Self.readable)
  }

  /// The bytes that are kept of the beginning of a long part.
  private static let beginning = 500
  /// The bytes that are kept of its end, where most problems quote a value.
  private static let end = 200

  private static func readable(_ text: String) -> String {
    let left = text.utf8.count - beginning - end
    // A shorter remainder is kept, as the note about it would be almost as long.
    guard left > 100 else { return text }
    let bytes = text.utf8
    let first = bytes.index(bytes.startIndex, offsetBy: beginning)
    let last = bytes.index(bytes.endIndex, offsetBy: -end)
    let scalars = text.unicodeScalars
    return "\(String(scalars[..<first]))... (\(Phrase.size(left)) left out) ...\(String(scalars[last...]))"
  }

  package var detail: String {
    switch (source, key) {
    case (let source?, let key?): "\(source): \(key) \(problem)"
    case (let subject?, nil), (nil, let subject?): "\(subject) \(problem)"
    case (nil, nil): problem
    }
  }

  /// The whole fault in one sentence.
  package var description: String { advice.map { "\(detail); \($0)" } ?? detail }
}

/// An error of this program whose description is a sentence for people. Descriptions of all other errors are
/// never shown.
package protocol Readable: Error, CustomStringConvertible {}

/// An error of the database that a request needs.
package protocol StorageFailure: Error {
  /// For the log.
  var name: String { get }
  /// Names tables and constraints, never values.
  var message: String { get }
  /// Whether trying again may help.
  var isTransient: Bool { get }
}
