package import Basics
package import Logging

/// The settings of the log.
package struct LogSettings: Sendable {
  package init() {}

  @Setting(
    "log.level", "info", .choice(Logger.Level.allCases.map { ($0.rawValue, $0) }, "debug"),
    "lowest level that is logged: trace, debug, info, notice, warning, error or critical")
  package var level: Logger.Level

  @Setting(
    "log.format", "text", .choice(LogFormat.allCases.map { ($0.rawValue, $0) }, "json"),
    "form of the log: text, or json for machines")
  package var format: LogFormat
}
