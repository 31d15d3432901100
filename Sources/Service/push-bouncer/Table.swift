import Basics
import Foundation
import Synchronization

/// A table with headings, whose columns are as wide as their contents.
struct Table {
  struct Cell: ExpressibleByStringInterpolation {
    let text: String
    let tone: Terminal.Tone

    /// - Parameter text: cut after 255 characters. A line break in a name would end the row.
    init(_ text: String, _ tone: Terminal.Tone = .plain) {
      self.text = text.cut.inOneLine.printable
      self.tone = tone
    }

    init(stringLiteral text: String) { self.init(text) }

    /// A missing value.
    static let none = Cell("-", .faint)
  }

  /// A heading, and the alignment of the column.
  struct Column: ExpressibleByStringLiteral {
    let heading: String
    /// Whether it is aligned to the right.
    let isNumber: Bool

    init(_ heading: String, isNumber: Bool) { (self.heading, self.isNumber) = (heading, isNumber) }

    init(stringLiteral heading: String) { self.init(heading, isNumber: false) }

    static func number(_ heading: String) -> Column { Column(heading, isNumber: true) }
  }

  private static let gap = "  "

  private let columns: [Column]
  private var rows: [[Cell]] = []

  /// - Parameter columns: if all headings are empty, the table has no heading row.
  init(columns: [Column]) { self.columns = columns }

  init(_ columns: Column...) { self.init(columns: columns) }

  var isEmpty: Bool { rows.isEmpty }

  mutating func add(_ cells: Cell...) { add(cells: cells) }

  /// Adds a row; missing cells stay empty.
  mutating func add(cells: [Cell]) {
    rows.append(cells + Array(repeating: "", count: max(0, columns.count - cells.count)))
  }

  func text(for terminal: Terminal) -> String {
    let headings = columns.map { Cell($0.heading, .heading) }
    let all = (columns.allSatisfy(\.heading.isEmpty) ? [] : [headings]) + rows
    let widths = columns.indices.map { index in all.map { $0[index].text.displayedWidth }.max() ?? 0 }
    return all.map { cells in
      // Spaces at the end of a line would wrap on a narrow terminal.
      let last = cells.lastIndex { !$0.text.isEmpty } ?? 0
      return columns.indices.prefix(last + 1).map { index in
        let cell = cells[index]
        let blanks = String(repeating: " ", count: widths[index] - cell.text.displayedWidth)
        let text = terminal.text(cell.text, cell.tone)
        if columns[index].isNumber { return blanks + text }
        return index == last ? text : text + blanks
      }.joined(separator: Self.gap)
    }.joined(separator: "\n")
  }
}

extension String {
  /// The number of terminal columns that the text takes.
  var displayedWidth: Int { reduce(0) { $0 + $1.displayedWidth } }
}

extension Character {
  fileprivate var displayedWidth: Int { unicodeScalars.reduce(0) { max($0, $1.displayedWidth) } }
}

extension Unicode.Scalar {
  fileprivate var displayedWidth: Int {
    switch value {
    case 0x20..<0x7F: return 1
    // East Asian Wide and Fullwidth (Unicode Standard Annex 11).
    case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0x4DBF, 0x4E00...0xA4CF, 0xA960...0xA97C,
      0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x20000...0x3FFFD:
      return 2
    default: break
    }
    if properties.isEmojiPresentation { return 2 }
    switch properties.generalCategory {
    case .nonspacingMark, .enclosingMark, .format, .control: return 0
    default: return 1
    }
  }
}

/// Shows the progress of a long command on standard error: on a terminal in one line that rewrites itself,
/// elsewhere in an occasional new line, so that a log stays short.
final class ProgressLine: Sendable {
  /// The time between two lines in a log.
  private static let pause = Duration.seconds(10)
  /// The time between two updates of the line on a terminal.
  private static let frame = Duration.milliseconds(100)
  /// Whether the terminal shows a progress line now.
  private static let isShown = Mutex(false)

  private let terminal: Terminal
  private let last: Mutex<ContinuousClock.Instant?>

  /// - Parameters:
  ///   - terminal: the capabilities of standard error.
  ///   - isLong: whether a log gets its first line at once. Otherwise it gets one only if the command takes
  ///     longer than ``pause``.
  init(_ terminal: Terminal = .errors, isLong: Bool = false) {
    self.terminal = terminal
    last = Mutex(terminal.isTerminal || isLong ? nil : .now)
  }

  /// Shows the progress, unless the last update was too recent.
  func show(_ text: @autoclosure () -> String) {
    let isDue = last.withLock { last in
      let now = ContinuousClock.now
      if let before = last, now - before < (terminal.isTerminal ? Self.frame : Self.pause) { return false }
      last = now
      return true
    }
    guard isDue else { return }
    guard terminal.isTerminal else { return printError(text()) }
    // A line that has wrapped cannot be rewritten, so it is cut at the terminal's width.
    let line = text().inOneLine.printable.prefix(Self.columns - 1)
    Self.isShown.withLock { isShown in
      isShown = true
      FileHandle.standardError.write(Data("\r\u{1b}[K\(line)".utf8))
    }
  }

  /// Clears the progress line, so that something else can be printed.
  static func clear() {
    isShown.withLock { isShown in
      if isShown { FileHandle.standardError.write(Data("\r\u{1b}[K".utf8)) }
      isShown = false
    }
  }

  private static var columns: Int {
    var size = winsize()
    guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 1 else { return 80 }
    return Int(size.ws_col)
  }
}
