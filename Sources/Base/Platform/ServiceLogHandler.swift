import Foundation
package import Logging

/// Sends all loggers' lines to standard error. May be called once per process.
package func bootstrapLogging(level: Logger.Level, format: LogFormat) {
  // A log whose reader is gone is no reason to end: its lines are dropped like those that nobody reads.
  signal(SIGPIPE, SIG_IGN)
  atexit { LogWriter.standardError.flush() }
  LoggingSystem.bootstrap { _ in ServiceLogHandler(level: level, format: format, to: .standardError) }
}

/// Writes log lines. It redacts nothing: callers never pass secrets (tokens, keys, payloads) to a logger. Metadata that are
/// strings are cut after 255 characters; sentences of this program are passed as `.stringConvertible`. Hidden characters are
/// escaped, so that no text can end its line, control a terminal or pose as another.
struct ServiceLogHandler: LogHandler {
  var logLevel: Logger.Level
  var metadata: Logger.Metadata = [:]
  private let format: LogFormat
  private let writer: LogWriter

  init(level: Logger.Level, format: LogFormat, to writer: LogWriter) {
    logLevel = level
    self.format = format
    self.writer = writer
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    var all = metadata
    if let more = event.metadata { all.merge(more) { $1 } }
    // Hummingbird's own id duplicates ours.
    all["hb.request.id"] = nil
    let fields = all.sorted {
      ($0.key == "request_id" ? "" : $0.key) < ($1.key == "request_id" ? "" : $1.key)
    }
    writer.write(format.line(event.level, "\(event.message)", fields), format)
  }
}
