import Basics
import Foundation
import HTTP
import Logging

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
    var line = "\(time) \(level.rawValue.uppercased()) \(message.cut(to: Self.longest).escaped())"
    for (key, value) in fields {
      let text = Self.text(value)
      let isPlain = !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 != UInt8(ascii: "\"") }
      line += " \(key)=\((isPlain ? text : JSON.string(text).text).escaped())"
    }
    return line
  }

  /// The longest text of this program's own, in characters.
  private static let longest = 4096

  /// What may come from outside is a string, and is cut. The program's own sentences are passed as `.stringConvertible`.
  private static func text(_ value: Logger.Metadata.Value) -> String {
    if case .stringConvertible(let own) = value { "\(own)".cut(to: longest) } else { "\(value)".cut }
  }

  private func json(_ time: String, _ level: Logger.Level, _ message: String, _ fields: [Field]) -> String {
    var object: JSON.Object = [
      "time": .string(time), "level": .string(level.rawValue),
      "message": .string(message.cut(to: Self.longest)),
    ]
    for (key, value) in fields where object[key] == nil { object[key] = Self.json(value) }
    return JSON.object(object).text.escaped()
  }

  /// A JSON number if the caller passed a number, else a string.
  private static func json(_ value: Logger.Metadata.Value) -> JSON {
    guard case .stringConvertible(let convertible) = value else { return .string(text(value)) }
    return switch convertible {
    case let number as any BinaryInteger: Int64(exactly: number).map(JSON.integer) ?? .string(text(value))
    case let number as Double where number.isFinite: .number("\(number)")
    case let flag as Bool: .bool(flag)
    default: .string(text(value))
    }
  }
}
