import Foundation
import HTTP
import Logging
import Testing

@testable import Platform

@Suite struct ServiceLogHandlerTests {
  /// The lines that a logger of this format writes.
  private func lines(_ format: LogFormat, level: Logger.Level = .info, _ use: (inout Logger) -> Void) throws
    -> [String]
  {
    let pipe = Pipe()
    let writer = LogWriter(to: pipe.fileHandleForWriting.fileDescriptor)
    var logger = Logger(label: "test") { _ in ServiceLogHandler(level: level, format: format, to: writer) }
    use(&logger)
    #expect(writer.flush())
    try pipe.fileHandleForWriting.close()
    return String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
      .split(separator: "\n").map(String.init)
  }

  @Test func `A line for people has time level message and fields`() throws {
    let line = try #require(
      try lines(.text) { logger in
        logger[metadataKey: "request_id"] = "r1"
        logger[metadataKey: "hb.request.id"] = "other"
        logger.warning("it happened", metadata: ["a": "1", "z": "two words", "q": "say \"x\"", "e": ""])
      }.first)
    let parts = line.split(separator: " ", maxSplits: 1)
    #expect(parts[0].wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil)
    #expect(parts[1] == #"WARNING it happened request_id=r1 a=1 e="" q="say \"x\"" z="two words""#)
  }

  @Test func `A line for machines is one JSON object`() throws {
    let line = try #require(
      try lines(.json) { logger in
        logger[metadataKey: "request_id"] = "r1"
        logger.error("say \"x\"\nand y", metadata: ["a": "1", "level": "mine", "bytes": "\u{1}\u{7f}"])
      }.first)
    #expect(!line.contains("\n"))
    let json = try JSON.parse(line)
    #expect(json["level"]?.string == "error")
    #expect(json["message"]?.string == "say \"x\"\nand y")
    #expect(json["request_id"]?.string == "r1")
    #expect(json["a"]?.string == "1")
    #expect(json["bytes"]?.string == "\u{1}\u{7f}")
    guard case .object(let object) = json else { return #expect(Bool(false)) }
    #expect(object.members.map(\.name) == ["time", "level", "message", "request_id", "a", "bytes"])
  }

  @Test func `Numbers are numbers for machines`() throws {
    let line = try #require(
      try lines(.json) { logger in
        logger.info(
          "x",
          metadata: [
            "i": .stringConvertible(200), "u": .stringConvertible(UInt64.max), "d": .stringConvertible(1.5),
            "n": .stringConvertible(Double.nan), "b": .stringConvertible(true), "s": "7",
          ])
      }.first)
    #expect(
      line.hasSuffix(#""b":true,"d":1.5,"i":200,"n":"nan","s":"7","u":"18446744073709551615"}"#), "\(line)")
  }

  @Test(arguments: ["a\nb", "a\r\nb", "a\tb", "\u{1b}[31m", "a\u{2028}b", "a\u{85}b"])
  func `Nothing breaks out of its line`(_ text: String) throws {
    let lines = try lines(.text) { logger in
      logger.info("field", metadata: ["a": "\(text)"])
      logger.info("\(text)")
    }
    #expect(lines.count == 2)
    for line in lines {
      #expect(!line.unicodeScalars.contains { $0.properties.generalCategory == .control })
      #expect(!line.contains { $0.isNewline })
    }
  }

  @Test(arguments: LogFormat.allCases)
  func `What comes from outside has 255 characters, and what is hidden in it is seen`(_ format: LogFormat)
    throws
  {
    let (long, own) = (
      String(repeating: "org.example ", count: 75_000), String(repeating: "advice ", count: 300)
    )
    let lines = try lines(format) { logger in
      logger.info("refused: \(long)", metadata: ["app": "\(long)", "list": ["\(long)", "\(long)"]])
      logger.info(
        "\u{200B}a", metadata: ["name": "x\u{200B}\u{E0041}\u{FEFF}y", "advice": .stringConvertible(own)])
    }
    try #require(lines.count == 2)
    #expect(lines[0].utf8.count < 5000)
    #expect(lines[1].contains(#"x\u200b\udb40\udc41\ufeffy"#) && lines[1].contains(#"\u200ba"#))
    #expect(lines[1].contains(own))
    if format == .json { #expect(try JSON.parse(lines[1])["name"]?.string == "x\u{200B}\u{E0041}\u{FEFF}y") }
  }

  @Test func `Lines below the level are not written`() throws {
    let lines = try lines(.text, level: .warning) { logger in
      logger.info("quiet")
      logger.warning("loud")
    }
    #expect(lines.count == 1)
  }

  @Test func `A line's own field wins over the logger's`() throws {
    let lines = try lines(.text) { logger in
      logger[metadataKey: "a"] = "1"
      logger.info("x", metadata: ["a": "2"])
    }
    #expect(lines[0].hasSuffix(" a=2"))
  }
}
