import Basics
import Demo
import Foundation
import Glibc
import Operator
import ProviderSimulator
import ZulipImport
import ZulipServer

/// Prints to standard output without buffering, because a reader behind a pipe may be waiting for the line.
func printLine(_ line: String) {
  write(line.printable, to: .standardOutput)
}

/// Prints to standard error: messages for people that are not part of a result.
func printError(_ line: String) {
  write(line.printable, to: .standardError)
}

/// Writes the whole text. If the reader has closed the pipe (`| head -1`), the program ends silently.
private func write(_ text: String, to file: FileHandle) {
  ProgressLine.clear()
  var rest = Array("\(text)\n".utf8)[...]
  while !rest.isEmpty {
    let count = rest.withUnsafeBytes { Glibc.write(file.fileDescriptor, $0.baseAddress, $0.count) }
    if count > 0 {
      rest = rest.dropFirst(count)
    } else if errno == EAGAIN || errno == EINTR {
      // The terminal is in non-blocking mode, because another program has set it so.
      usleep(1000)
    } else {
      if errno != EPIPE, file.fileDescriptor == STDOUT_FILENO {
        printError("Error: the output \(FileObstacle(errno).problem)")
      }
      exit(EXIT_FAILURE)
    }
  }
}

/// The output of a command: paragraphs and tables, one below the other.
struct Page {
  let terminal: Terminal
  private var blocks: [String] = []

  init(for terminal: Terminal = .output) { self.terminal = terminal }

  /// Adds one or more lines.
  mutating func add(_ text: String = "", _ tone: Terminal.Tone = .plain) {
    blocks.append(terminal.text(text.printable, tone))
  }

  mutating func add(_ table: Table) { blocks.append(table.text(for: terminal)) }

  var text: String { blocks.joined(separator: "\n") }

  /// Prints the page to standard output.
  func print() { write(text, to: .standardOutput) }
}

extension String {
  /// The text with hidden characters escaped, as in JSON: names from outside may contain them. Line breaks and tabs are kept.
  var printable: String { escaped(keeping: ["\n", "\t"]) }

  /// The text in one line, as names in sentences and tables need it: line breaks and tabs become spaces.
  var inOneLine: String {
    // Works on scalars, because a carriage return with a line feed is a single character that equals neither.
    unicodeScalars.reduce(into: "") {
      $0.unicodeScalars.append("\t\n\r".unicodeScalars.contains($1) ? " " : $1)
    }
  }
}

/// The capabilities of the terminal, file or pipe behind one of the program's streams.
struct Terminal: Sendable {
  /// Whether the stream is a terminal, on which lines can be rewritten.
  let isTerminal: Bool
  /// Whether text may be bold and coloured.
  let hasColour: Bool

  /// A file or a pipe: plain text only.
  static let plain = Terminal(isTerminal: false, hasColour: false)
  static let output = Terminal(STDOUT_FILENO)
  static let errors = Terminal(STDERR_FILENO)

  init(isTerminal: Bool, hasColour: Bool) {
    self.isTerminal = isTerminal
    self.hasColour = hasColour
  }

  private init(_ descriptor: CInt) {
    self.init(isTerminal: isatty(descriptor) == 1, ProcessInfo.processInfo.environment)
  }

  /// - Parameter environment: `NO_COLOR` (https://no-color.org) turns colour off, and nothing else. A terminal that is
  ///   `dumb`, or of which `TERM` says nothing, gets no escape codes at all.
  init(isTerminal: Bool, _ environment: [String: String]) {
    let isDumb = ["", "dumb"].contains(environment["TERM", default: ""])
    self.isTerminal = isTerminal && !isDumb
    hasColour = self.isTerminal && environment["NO_COLOR", default: ""].isEmpty
  }

  /// A text style.
  enum Tone: String {
    case plain = ""
    case heading = "1"
    case good = "32"
    case doubtful = "33"
    case bad = "31"
    case faint = "2"
  }

  /// Adds the escape codes of a style to `text`, which must be ``Swift/String/printable`` already.
  func text(_ text: String, _ tone: Tone) -> String {
    hasColour && tone != .plain && !text.isEmpty ? "\u{1b}[\(tone.rawValue)m\(text)\u{1b}[0m" : text
  }
}

// Errors of modules that do not depend on `Readable`; their descriptions are written for people.
extension BouncerError: Readable {}
extension CredentialsError: Readable {}
extension DemoError: Readable {}
extension ZulipSourceError: Readable {}
