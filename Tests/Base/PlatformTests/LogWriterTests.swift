import Foundation
import TestSupport
import Testing

@testable import Platform

/// Tests logs that are not read, or not taken.
@Suite struct LogWriterTests {
  /// A pipe, and a writer to it that has room for so many bytes.
  private func unread(capacity: Int) -> (pipe: Pipe, writer: LogWriter) {
    // As in the service.
    signal(SIGPIPE, SIG_IGN)
    let pipe = Pipe()
    return (pipe, LogWriter(to: pipe.fileHandleForWriting.fileDescriptor, capacity: capacity))
  }

  /// Reads until there is a line that ends so.
  private func read(_ pipe: Pipe, untilLine end: String) -> [String] {
    read(pipe) { $0.last?.hasSuffix(end) == true }
  }

  /// Reads lines until they are all; none that does not come within ten seconds.
  private func read(_ pipe: Pipe, until areAll: ([String]) -> Bool) -> [String] {
    var bytes = Data()
    while true {
      var descriptors = pollfd(
        fd: pipe.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
      let isThere = poll(&descriptors, 1, 10_000) > 0
      #expect(isThere, "nothing more is written")
      let more = isThere ? pipe.fileHandleForReading.availableData : Data()
      bytes.append(more)
      let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
      if more.isEmpty || bytes.last == UInt8(ascii: "\n") && areAll(lines) { return lines }
    }
  }

  /// The number of dropped lines that a line tells; nil for any other.
  private func told(_ line: String) -> Int? {
    let gap = "log lines were dropped, because the log took no more dropped="
    return line.firstRange(of: gap).flatMap { Int(line[$0.upperBound...]) }
  }

  @Test func `What nobody reads is dropped and counted, and the log says so once it is read`() throws {
    let (pipe, writer) = unread(capacity: 100_000)
    // More than a pipe and the writer take together.
    let lines = (0..<3000).map { "line \($0) \(String(repeating: "x", count: 80))" }
    for line in lines { writer.write(line, .text) }
    let dropped = writer.dropped
    #expect(dropped > 500)
    #expect(writer.backlog()?.dropped == dropped)
    let read = read(pipe) { $0.compactMap(told).reduce(0, +) == dropped }
    #expect(read.filter { told($0) == nil } == Array(lines.prefix(lines.count - dropped)))
    #expect(writer.flush())
    #expect(writer.backlog() == nil)
    writer.write("later", .text)
    #expect(self.read(pipe, untilLine: "later") == ["later"])
    #expect(writer.dropped == dropped)
  }

  @Test func `What is dropped while the last lines that waited are written is told, too`() async throws {
    let (pipe, writer) = unread(capacity: 1 << 20)
    let filled = fill(pipe)
    let line = String(repeating: "x", count: 80)
    writer.write(line, .text)
    await eventually("the thread waits with the first line") { writer.backlog(timeout: 0) != nil }
    while writer.dropped == 0 { writer.write(line, .text) }
    // All others are under way once one of them is there, and are more than a pipe and this read take.
    var count = 0
    while count < filled + 4 * line.utf8.count { count += pipe.fileHandleForReading.availableData.count }
    // Too long for what the first line has left free.
    writer.write(String(repeating: "y", count: 1000), .text)
    #expect(writer.dropped == 2)
    #expect(read(pipe) { $0.compactMap(told).reduce(0, +) == 2 }.compactMap(told) == [1, 1])
    #expect(writer.flush())
    #expect(writer.backlog() == nil)
  }

  /// Writes until the pipe takes no more; returns how many bytes.
  private func fill(_ pipe: Pipe) -> Int {
    let descriptor = pipe.fileHandleForWriting.fileDescriptor
    let flags = fcntl(descriptor, F_GETFL)
    _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK)
    let filler = Array(repeating: UInt8(ascii: "\n"), count: 4096)
    var count = 0
    while case let more = write(descriptor, filler, filler.count), more > 0 { count += more }
    _ = fcntl(descriptor, F_SETFL, flags)
    return count
  }

  @Test func `A reader who stops is noticed before anything is dropped`() async throws {
    let (pipe, writer) = unread(capacity: 1 << 20)
    #expect(writer.backlog(timeout: 0) == nil)
    for _ in 0..<2000 { writer.write(String(repeating: "x", count: 80), .text) }
    await eventually("a full pipe") { writer.backlog(timeout: 0.2) != nil }
    #expect(writer.backlog(timeout: 0)?.dropped == 0)
    #expect(writer.backlog(timeout: 1000) == nil)
    #expect(!writer.flush())
    writer.write("last", .text)
    #expect(read(pipe, untilLine: "last").count == 2001)
  }

  @Test func `A descriptor that takes a part, or nothing for now, gets all of it`() throws {
    let (pipe, writer) = unread(capacity: 1 << 20)
    // The pipe of another program's, which may be so.
    let descriptor = pipe.fileHandleForWriting.fileDescriptor
    #expect(fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) == 0)
    // Longer than a pipe, so that none is written in one go.
    let lines = (0..<5).map { "\($0)" + String(repeating: "y", count: 100_000) }
    for line in lines { writer.write(line, .text) }
    writer.write("last", .text)
    #expect(read(pipe, untilLine: "last") == lines + ["last"])
    #expect(writer.dropped == 0)
  }

  @Test func `What is refused for good is dropped, and later lines are written`() throws {
    let (pipe, writer) = unread(capacity: 1 << 20)
    let descriptor = pipe.fileHandleForWriting.fileDescriptor
    let kept = dup(descriptor)
    let full = open("/dev/full", O_WRONLY)
    defer {
      close(kept)
      close(full)
    }
    dup2(full, descriptor)
    for _ in 0..<3 { writer.write("nobody gets this", .json) }
    #expect(writer.flush())
    #expect(writer.dropped == 3)
    #expect(writer.backlog()?.dropped == 3)
    dup2(kept, descriptor)
    writer.write("again", .json)
    let lines = read(pipe, untilLine: #""dropped":3}"#)
    #expect(lines.count == 2 && lines[0] == "again")
    #expect(writer.flush() && writer.backlog() == nil)
  }

  @Test func `A reader who is gone ends nothing`() throws {
    let (pipe, writer) = unread(capacity: 1 << 20)
    try pipe.fileHandleForReading.close()
    writer.write("x", .text)
    #expect(writer.flush())
    #expect(writer.dropped == 1)
  }
}
