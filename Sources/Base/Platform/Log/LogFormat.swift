internal import Foundation
internal import HTTP
internal import Logging

/// The format of log lines.
package enum LogFormat: String, Sendable, CaseIterable {
  /// For people: time, level, message, `name=value`.
  case text
  /// For machines: one JSON object per line.
  case json
}

extension LogFormat {
  typealias Field = (key: String, value: Logger.Metadata.Value)

  private static let timeFormat = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

  /// A line of now, without its line break.
  func line(_ level: Logger.Level, _ message: String, _ fields: [Field]) -> String {
    let time = Date().formatted(Self.timeFormat)
    return switch self {
    case .text: text(time, level, message, fields)
    case .json: json(time, level, message, fields)
    }
  }

  private func text(_ time: String, _ level: Logger.Level, _ message: String, _ fields: [Field]) -> String {
    var line = "\(time) \(level.rawValue.uppercased()) \(Self.oneLine(message))"
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

  private func json(_ time: String, _ level: Logger.Level, _ message: String, _ fields: [Field]) -> String {
    var object: JSON.Object = [
      "time": .string(time), "level": .string(level.rawValue), "message": .string(message),
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
}
