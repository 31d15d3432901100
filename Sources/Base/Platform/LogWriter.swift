import Dispatch
package import Foundation
import Logging
import Synchronization

/// Writes lines to a file descriptor on a thread of its own, so that nobody who logs waits for the reader of the log: a pipe
/// that nobody empties, a terminal that is stopped, a disk that hangs. Lines for which there is no room are dropped; how many
/// they were stands where they are missing.
package final class LogWriter: Sendable {
  /// What a writer cannot get rid of.
  package struct Backlog: Sendable, Hashable {
    /// When the descriptor took something last.
    package let since: Date
    /// The number of lines that were dropped and are not told in the log yet.
    package let dropped: Int
  }

  private struct State {
    /// Lines that wait for the thread.
    var waiting: [UInt8] = []
    /// The number of bytes that the thread is writing.
    var underWay = 0
    /// When the descriptor took something last, or was given something first.
    var progress = Date.distantPast
    var dropped = 0
    /// How many of the dropped lines are not told yet.
    var untold = 0
    /// That of the last line.
    var format = LogFormat.text

    mutating func drop(_ lines: Int) {
      dropped += lines
      untold += lines
    }
  }

  /// The log of this process.
  package static let standardError = LogWriter(to: STDERR_FILENO)

  private let descriptor: CInt
  private let capacity: Int
  private let state = Mutex(State())
  /// Signalled when there is something to write again.
  private let arrival = DispatchSemaphore(value: 0)
  /// Entered while there is something to write.
  private let work = DispatchGroup()

  /// Starts the thread, which stays until the process ends.
  ///
  /// - Parameter capacity: the size of all lines in memory, in bytes.
  init(to descriptor: CInt, capacity: Int = 4 << 20) {
    self.descriptor = descriptor
    self.capacity = capacity
    Thread { [self] in while true { writeNext() } }.start()
  }

  /// The number of lines that were dropped since the start.
  package var dropped: Int { state.withLock { $0.dropped } }

  /// What cannot be written; nil if no line was dropped for it, and the descriptor took something less than `timeout` seconds
  /// ago.
  package func backlog(timeout: TimeInterval = 10, now: Date = Date()) -> Backlog? {
    state.withLock { state in
      let isStuck = state.underWay > 0 && now.timeIntervalSince(state.progress) >= timeout
      return isStuck || state.untold > 0 ? Backlog(since: state.progress, dropped: state.untold) : nil
    }
  }

  /// Has a line written, or drops it. Never waits.
  ///
  /// - Parameter line: without its line break.
  func write(_ line: String, _ format: LogFormat) {
    let isFirst = state.withLock { state in
      state.format = format
      let size = state.waiting.count + state.underWay
      guard size + line.utf8.count < capacity else {
        state.drop(1)
        return false
      }
      state.waiting += line.utf8
      state.waiting.append(UInt8(ascii: "\n"))
      guard size == 0 else { return false }
      state.progress = Date()
      work.enter()
      return true
    }
    if isFirst { arrival.signal() }
  }

  /// Waits until everything is written, for at most a second.
  ///
  /// - Returns: whether everything is.
  @discardableResult
  package func flush() -> Bool { work.wait(timeout: .now() + .seconds(1)) == .success }

  /// Waits for lines and writes them, and then how many were dropped after them, until all is told or the descriptor refuses it.
  private func writeNext() {
    arrival.wait()
    var isTaken = true
    while true {
      let (bytes, untold, format) = state.withLock { state in
        let bytes = state.waiting
        state.waiting = []
        state.underWay = bytes.count
        let untold = isTaken || !bytes.isEmpty ? state.untold : 0
        // The next line finds the thread idle, and wakes it.
        if bytes.isEmpty, untold == 0 { work.leave() }
        return (bytes, untold, state.format)
      }
      if bytes.isEmpty, untold == 0 { return }
      isTaken = write(bytes[...])
      guard isTaken, untold > 0 else { continue }
      let gap = format.line(
        .warning, "log lines were dropped, because the log took no more",
        [("dropped", .stringConvertible(untold))])
      isTaken = write(Array("\(gap)\n".utf8)[...])
      if isTaken { state.withLock { $0.untold -= untold } }
    }
  }

  /// Writes all bytes, however long that takes.
  ///
  /// - Returns: false if the descriptor refuses them, as on a full disk, so that they are dropped.
  private func write(_ bytes: ArraySlice<UInt8>) -> Bool {
    var rest = bytes
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
      if count > 0 {
        rest = rest.dropFirst(count)
        state.withLock { $0.progress = Date() }
      } else if errno == EAGAIN {
        var descriptors = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&descriptors, 1, -1)
      } else if errno != EINTR {
        let lines = rest.count { $0 == UInt8(ascii: "\n") }
        state.withLock { $0.drop(lines) }
        return false
      }
    }
    return true
  }
}
