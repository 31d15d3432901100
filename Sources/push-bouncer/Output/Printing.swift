import Foundation
import Glibc
import Operations

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
        note("Error: the output \(FileObstacle.words(errno))")
      }
      exit(EXIT_FAILURE)
    }
  }
}

/// What a command prints: lines and tables, one below the other.
struct Page {
  let terminal: Terminal
  private var blocks: [String] = []
  private var asides: [String] = []

  init(for terminal: Terminal = .output) { self.terminal = terminal }

  /// Adds a text of one line or more.
  mutating func add(_ text: String = "", _ tone: Terminal.Tone = .plain) {
    blocks.append(terminal.text(text.printable, tone))
  }

  /// Adds a table.
  mutating func add(_ table: Table) { blocks.append(table.text(for: terminal)) }

  /// Adds what is no part of the result, and is said after it on standard error.
  mutating func add(aside text: String) { asides.append(text) }

  var text: String { blocks.joined(separator: "\n") }

  /// Prints it as a result.
  func print() {
    write(text, to: .standardOutput)
    for aside in asides { note(aside) }
  }
}

extension String {
  /// The text with an escape, as JSON has it, for what would not be shown but obeyed: characters that control
  /// a terminal or turn the direction of writing, which strangers may have put into a name. Line breaks and tabs stay.
  var printable: String {
    guard unicodeScalars.contains(where: \.isObeyed) else { return self }
    var text = String.UnicodeScalarView()
    for scalar in unicodeScalars {
      guard scalar.isObeyed else {
        text.append(scalar)
        continue
      }
      let digits = String(scalar.value, radix: 16)
      text.append(
        contentsOf: "\\u\(String(repeating: "0", count: max(0, 4 - digits.count)))\(digits)".unicodeScalars)
    }
    return String(text)
  }
}

extension String {
  /// The text in one line, as a name within a sentence or a table has to be: with blanks for line breaks and tabs.
  var inOneLine: String {
    var text = String.UnicodeScalarView()
    // By scalars: a carriage return with a line feed is one character, and is neither of both.
    for scalar in unicodeScalars { text.append("\t\n\r".unicodeScalars.contains(scalar) ? " " : scalar) }
    return String(text)
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
