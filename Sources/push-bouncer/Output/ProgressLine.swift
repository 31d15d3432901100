import Foundation
import Synchronization

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
