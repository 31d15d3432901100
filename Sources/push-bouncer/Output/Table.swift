import Foundation
import Synchronization

/// Rows under headings, in columns that are as wide as they need to be.
struct Table {
  /// What stands in a column of a row.
  struct Cell: ExpressibleByStringInterpolation {
    let text: String
    let tone: Terminal.Tone

    init(_ text: String, _ tone: Terminal.Tone = .plain) {
      // In one line: a break in a name would end the row.
      self.text = text.inOneLine.printable
      self.tone = tone
    }

    init(stringLiteral text: String) { self.init(text) }

    /// Nothing to tell.
    static let none = Cell("-", .faint)
  }

  /// A heading, and how what is below stands.
  struct Column: ExpressibleByStringLiteral {
    let heading: String
    let isNumber: Bool

    init(stringLiteral heading: String) { (self.heading, isNumber) = (heading, false) }

    private init(number heading: String) { (self.heading, isNumber) = (heading, true) }

    /// One of numbers, which stand to the right.
    static func number(_ heading: String) -> Column { Column(number: heading) }
  }

  private static let gap = "  "

  private let columns: [Column]
  private var rows: [[Cell]] = []

  /// - Parameter columns: without any heading there is no row of them.
  init(columns: [Column]) { self.columns = columns }

  init(_ columns: Column...) { self.init(columns: columns) }

  var isEmpty: Bool { rows.isEmpty }

  mutating func add(_ cells: Cell...) { add(cells: cells) }

  /// Adds a row; columns that it does not have stay empty.
  mutating func add(cells: [Cell]) {
    rows.append(cells + Array(repeating: "", count: max(0, columns.count - cells.count)))
  }

  func text(for terminal: Terminal) -> String {
    let headings = columns.map { Cell($0.heading, .heading) }
    let all = (columns.allSatisfy(\.heading.isEmpty) ? [] : [headings]) + rows
    let widths = columns.indices.map { index in all.map { $0[index].text.displayedWidth }.max() ?? 0 }
    return all.map { cells in
      // Blanks at the end of a line would wrap it on a narrow terminal.
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
  /// How many columns of a terminal the text takes.
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

/// How far a long command is, on standard error: one line that rewrites itself on a terminal; elsewhere a line now and
/// then, so that a log stays short.
final class ProgressLine: Sendable {
  /// Between two lines that stay.
  private static let pause = Duration.seconds(10)
  /// Between two looks of the line that rewrites itself.
  private static let frame = Duration.milliseconds(100)
  /// Whether such a line stands on the terminal.
  private static let stands = Mutex(false)

  private let terminal: Terminal
  private let last: Mutex<ContinuousClock.Instant?>

  /// - Parameters:
  ///   - terminal: what standard error leads to.
  ///   - isLong: whether a log is told from the first step on, and not only of a command that takes its time.
  init(_ terminal: Terminal = .errors, isLong: Bool = false) {
    self.terminal = terminal
    last = Mutex(terminal.isTerminal || isLong ? nil : .now)
  }

  /// Says how far it is, if it is time for that.
  func show(_ text: @autoclosure () -> String) {
    let isDue = last.withLock { last in
      let now = ContinuousClock.now
      if let before = last, now - before < (terminal.isTerminal ? Self.frame : Self.pause) { return false }
      last = now
      return true
    }
    guard isDue else { return }
    guard terminal.isTerminal else { return note(text()) }
    // Not beyond the line's end: what has wrapped cannot be rewritten.
    let line = text().inOneLine.printable.prefix(Self.columns - 1)
    Self.stands.withLock { stands in
      stands = true
      FileHandle.standardError.write(Data("\r\u{1b}[K\(line)".utf8))
    }
  }

  /// Takes a line that rewrites itself away, so that something else can be printed.
  static func clear() {
    stands.withLock { stands in
      if stands { FileHandle.standardError.write(Data("\r\u{1b}[K".utf8)) }
      stands = false
    }
  }

  private static var columns: Int {
    var size = winsize()
    guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 1 else { return 80 }
    return Int(size.ws_col)
  }
}
