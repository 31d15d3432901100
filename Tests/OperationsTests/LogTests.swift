import Foundation
import Logging
import Synchronization
import Testing
import Wire

@testable import Operations

@Suite struct LogTests {
  private final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    var all: [String] { lines.withLock { $0 } }
    func add(_ line: String) { lines.withLock { $0.append(line) } }
  }

  private func logger(_ format: LogFormat, _ level: Logger.Level = .info) -> (Logger, Lines) {
    let lines = Lines()
    return (
      Logger(label: "test") { _ in ServiceLogHandler(level: level, format: format, write: { lines.add($0) })
      }, lines
    )
  }

  @Test func `Text lines have a time, a level, a message and fields, the request's id first`() throws {
    var (logger, lines) = logger(.text)
    logger[metadataKey: "request_id"] = "abc"
    logger.warning(
      "it happened", metadata: ["a": "plain", "b": "two words", "c": "", "d": "line\nbreak \"quoted\""])
    let line = try #require(lines.all.first)
    #expect(line.range(of: #"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "#, options: .regularExpression) != nil)
    #expect(
      line.hasSuffix(
        #" WARNING it happened request_id=abc a=plain b="two words" c="" d="line\nbreak \"quoted\"""#))
  }

  @Test func `JSON lines are one object each`() throws {
    let (logger, lines) = logger(.json)
    logger.error("it \"happened\"", metadata: ["count": "3", "message": "not to be lost in another's place"])
    let line = try #require(lines.all.first)
    let json = try JSON.parse(Data(line.utf8))
    #expect(json["level"] == "error")
    #expect(json["message"] == "it \"happened\"")
    #expect(json["count"] == "3")
    #expect(json["time"]?.string?.hasSuffix("Z") == true)
  }

  @Test func `What is below the level is not written`() {
    let (logger, lines) = logger(.text, .warning)
    logger.info("no")
    logger.error("yes")
    #expect(lines.all.count == 1)
  }
}
