package import Logging
import Synchronization

/// Keeps what was logged.
package final class LogRecorder: Sendable {
  package struct Line: Sendable, CustomStringConvertible {
    package let level: Logger.Level
    package let message: String
    package let metadata: Logger.Metadata

    package var description: String { "\(level) \(message) \(metadata.sorted { $0.key < $1.key })" }
  }

  private let kept = Mutex<[Line]>([])

  package init() {}

  package var lines: [Line] { kept.withLock { $0 } }
  package var texts: [String] { lines.map(\.description) }
  package var logger: Logger { Logger(label: "test") { _ in self.handler } }
  package var handler: any LogHandler { Handler(recorder: self) }

  private struct Handler: LogHandler {
    let recorder: LogRecorder
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      let all = metadata.merging(event.metadata ?? [:]) { $1 }
      recorder.kept.withLock {
        $0.append(Line(level: event.level, message: "\(event.message)", metadata: all))
      }
    }
  }
}
