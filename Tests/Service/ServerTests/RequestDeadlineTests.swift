import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import HTTP
@testable import Server

@Suite struct RequestDeadlineTests {
  private let head = EmbeddedConnection.head()

  @Test func `Who says nothing is hung up on`() throws {
    let connection = try EmbeddedConnection()
    connection.wait(29)
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }

  @Test func `A byte now and then gains no time`() throws {
    let connection = try EmbeddedConnection()
    connection.wait(10)
    try connection.receive(head)
    for _ in 0..<19 {
      connection.wait(1)
      try connection.receive(.body(ByteBuffer(string: "x")))
    }
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }

  @Test func `An answer may take its time`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(head, .end(nil))
    connection.wait(3600)
    #expect(connection.isOpen)
    try connection.answer()
    connection.wait(29)
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }

  @Test func `Every request has the whole time`() throws {
    let connection = try EmbeddedConnection()
    for _ in 0..<3 {
      connection.wait(20)
      try connection.receive(head, .end(nil))
      try connection.answer()
    }
    #expect(connection.isOpen)
  }

  @Test func `An answer before the request's end stops no clock`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(head)
    try connection.answer()
    connection.wait(29)
    #expect(connection.isOpen)
    try connection.receive(.end(nil))
    connection.wait(29)
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }

  // MARK: the listener ends

  @Test func `A first request is waited for`() throws {
    let connection = try EmbeddedConnection()
    connection.wait(20)
    connection.end()
    connection.loop.advanceTime(by: .milliseconds(1999))
    #expect(connection.isOpen)
    connection.loop.advanceTime(by: .milliseconds(1))
    #expect(!connection.isOpen)
  }

  @Test func `What comes bit by bit is waited for`() throws {
    let connection = try EmbeddedConnection()
    connection.end()
    connection.wait(1)
    try connection.receive(head)
    for _ in 0..<5 {
      connection.wait(1)
      try connection.receive(.body(ByteBuffer(string: "x")))
    }
    try connection.receive(.end(nil))
    connection.wait(3600)
    #expect(connection.isOpen)
    try connection.answer()
    #expect(try connection.sent()?.saysClose == true)
  }

  @Test func `What stops coming is not`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(head)
    connection.end()
    connection.loop.advanceTime(by: .milliseconds(1999))
    #expect(connection.isOpen)
    connection.loop.advanceTime(by: .milliseconds(1))
    #expect(!connection.isOpen)
  }

  @Test func `Another request is not waited for long`() throws {
    let connection = try EmbeddedConnection()
    try connection.receive(head, .end(nil))
    try connection.answer()
    connection.end()
    connection.loop.advanceTime(by: .milliseconds(99))
    #expect(connection.isOpen)
    try connection.receive(head)
    connection.wait(1)
    #expect(connection.isOpen)
    connection.wait(1)
    #expect(!connection.isOpen)
  }
}
