import Foundation

/// What a stream of the program leads to, and so how text on it may look.
struct Terminal: Sendable {
  /// Whether a person reads along: lines may be rewritten.
  let isTerminal: Bool
  /// Whether text may be bold and coloured.
  let hasColour: Bool

  /// A file or a pipe: text and nothing else.
  static let plain = Terminal(isTerminal: false, hasColour: false)
  /// Where results go.
  static let output = Terminal(STDOUT_FILENO)
  /// Where everything else goes.
  static let errors = Terminal(STDERR_FILENO)

  init(isTerminal: Bool, hasColour: Bool) {
    self.isTerminal = isTerminal
    self.hasColour = hasColour
  }

  private init(_ descriptor: CInt) {
    self.init(isTerminal: isatty(descriptor) == 1, ProcessInfo.processInfo.environment)
  }

  /// - Parameter environment: `NO_COLOR` (https://no-color.org) and `TERM=dumb` forbid colour.
  init(isTerminal: Bool, _ environment: [String: String]) {
    let isDumb = environment["TERM"] == "dumb"
    self.isTerminal = isTerminal && !isDumb
    hasColour = self.isTerminal && environment["NO_COLOR", default: ""].isEmpty
  }

  /// The same for text that stays as it is.
  var withoutColour: Terminal { Terminal(isTerminal: isTerminal, hasColour: false) }

  /// How a text looks.
  enum Tone: String {
    case plain = ""
    case heading = "1"
    case good = "32"
    case doubtful = "33"
    case bad = "31"
    case faint = "2"
  }

  /// `text`, which must have been made ``Swift/String/printable``, in a tone.
  func text(_ text: String, _ tone: Tone) -> String {
    hasColour && tone != .plain && !text.isEmpty ? "\u{1b}[\(tone.rawValue)m\(text)\u{1b}[0m" : text
  }
}
