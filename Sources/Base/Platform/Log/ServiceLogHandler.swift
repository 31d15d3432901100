internal import Foundation
internal import HTTP
package import Logging
internal import Synchronization

/// The format of log lines.
package enum LogFormat: String, Sendable, CaseIterable {
  /// For people: time, level, message, `name=value`.
  case text
  /// For machines: one JSON object per line.
  case json
}

/// Sends all loggers' lines to standard error. May be called once per process.
package func bootstrapLogging(level: Logger.Level, format: LogFormat) {
  LoggingSystem.bootstrap { _ in ServiceLogHandler(level: level, format: format) }
}

/// Writes log lines. It redacts nothing: callers never pass secrets (tokens, keys, payloads) to a logger.
struct ServiceLogHandler: LogHandler {
  var logLevel: Logger.Level
  var metadata: Logger.Metadata = [:]
  private let format: LogFormat
  private static let timeFormat = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
  private let write: @Sendable (String) -> Void

  init(
    level: Logger.Level, format: LogFormat,
    write: @escaping @Sendable (String) -> Void = ServiceLogHandler.standardError
  ) {
    logLevel = level
    self.format = format
    self.write = write
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
    let time = Date().formatted(Self.timeFormat)
    switch format {
    case .text: write(text(time, event, fields))
    case .json: write(json(time, event, fields))
    }
  }

  private func text(
    _ time: String, _ event: LogEvent, _ fields: [(key: String, value: Logger.Metadata.Value)]
  ) -> String {
    var line = "\(time) \(event.level.rawValue.uppercased()) \(Self.oneLine("\(event.message)"))"
    for (key, value) in fields {
      let text = "\(value)"
      let isPlain = !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 != UInt8(ascii: "\"") }
      line += " \(key)=\(Self.oneLine(isPlain ? text : JSON.string(text).text))"
    }
    return line
  }

  /// Escapes line breaks and control characters, so that no text can end its line or control a terminal.
  private static func oneLine(_ text: String) -> String {
    guard !text.unicodeScalars.allSatisfy({ (0x20..<0x7F).contains($0.value) }) else { return text }
    return text.unicodeScalars.reduce(into: "") { line, scalar in
      switch scalar.properties.generalCategory {
      case .control, .lineSeparator, .paragraphSeparator: line += "\\u{\(String(scalar.value, radix: 16))}"
      default: line.unicodeScalars.append(scalar)
      }
    }
  }

  private func json(
    _ time: String, _ event: LogEvent, _ fields: [(key: String, value: Logger.Metadata.Value)]
  ) -> String {
    var object: JSON.Object = [
      "time": .string(time), "level": .string(event.level.rawValue), "message": .string("\(event.message)"),
    ]
    for (key, value) in fields where object[key] == nil { object[key] = Self.json(value) }
    return JSON.object(object).text
  }

  /// A JSON number if the caller passed a number, else a string.
  private static func json(_ value: Logger.Metadata.Value) -> JSON {
    guard case .stringConvertible(let value) = value else { return .string("\(value)") }
    return switch value {
    case let number as any BinaryInteger: Int64(exactly: number).map(JSON.integer) ?? .string("\(value)")
    case let number as Double where number.isFinite: .number("\(number)")
    case let flag as Bool: .bool(flag)
    default: .string("\(value)")
    }
  }

  /// Writes each line in one call, so that lines of several threads do not mix.
  private static let standardError: @Sendable (String) -> Void = { line in
    let bytes = Array("\(line)\n".utf8)
    _ = bytes.withUnsafeBytes { Foundation.write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
