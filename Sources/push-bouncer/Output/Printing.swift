import Demo
import Foundation
import Glibc
import Operations
import ProviderSimulator
import ZulipImport
import ZulipServer

/// Lines to standard output, at once: a reader behind a pipe waits for them.
func tell(_ line: String) {
  write(line.printable, to: .standardOutput)
}

/// Lines to standard error: for people, never part of a result.
func note(_ line: String) {
  write(line.printable, to: .standardError)
}

/// Where nobody reads any more (`| head -1`) the program ends without a word.
private func write(_ text: String, to file: FileHandle) {
  ProgressLine.clear()
  var rest = Array("\(text)\n".utf8)[...]
  while !rest.isEmpty {
    let count = rest.withUnsafeBytes { Glibc.write(file.fileDescriptor, $0.baseAddress, $0.count) }
    if count > 0 {
      rest = rest.dropFirst(count)
    } else if errno == EAGAIN || errno == EINTR {
      // A terminal that others use without waiting for it.
      usleep(1000)
    } else {
      if errno != EPIPE, file.fileDescriptor == STDOUT_FILENO {
        note("Error: the output \(FileObstacle(errno).problem)")
      }
      exit(EXIT_FAILURE)
    }
  }
}

/// What a command prints: lines and tables, one below the other.
struct Page {
  let terminal: Terminal
  private var blocks: [String] = []

  init(for terminal: Terminal = .output) { self.terminal = terminal }

  /// Adds a text of one line or more.
  mutating func add(_ text: String = "", _ tone: Terminal.Tone = .plain) {
    blocks.append(terminal.text(text.printable, tone))
  }

  /// Adds a table.
  mutating func add(_ table: Table) { blocks.append(table.text(for: terminal)) }

  var text: String { blocks.joined(separator: "\n") }

  /// Prints it as a result.
  func print() { write(text, to: .standardOutput) }
}

extension String {
  /// The text with an escape, as JSON has it, for what would not be shown but obeyed: characters that control
  /// a terminal or turn the direction of writing, which strangers may have put into a name. Line breaks and tabs stay.
  var printable: String {
    guard unicodeScalars.contains(where: \.isObeyed) else { return self }
    return unicodeScalars.reduce(into: "") { text, scalar in
      if scalar.isObeyed {
        text += String(format: "\\u%04x", scalar.value)
      } else {
        text.unicodeScalars.append(scalar)
      }
    }
  }

  /// The text in one line, as a name within a sentence or a table has to be: with blanks for line breaks and tabs.
  var inOneLine: String {
    // By scalars: a carriage return with a line feed is one character, and is neither of both.
    unicodeScalars.reduce(into: "") {
      $0.unicodeScalars.append("\t\n\r".unicodeScalars.contains($1) ? " " : $1)
    }
  }
}

extension Unicode.Scalar {
  fileprivate var isObeyed: Bool {
    switch value {
    case 0x09, 0x0A: false
    case 0..<0x20, 0x7F..<0xA0, 0x61C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }
}

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

// The errors of modules that do not know who reads them.
extension BouncerError: Readable {}
extension CommandError: Readable {}
extension CredentialsError: Readable {}
extension DemoError: Readable {}
extension ZulipSourceError: Readable {}
