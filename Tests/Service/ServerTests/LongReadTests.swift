import Basics
import Dispatch
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import NIOPosix
import Synchronization
import TestService
import Testing

@testable import HTTP
@testable import Server

@Suite struct LongReadTests {
  @Test func `What is long is not read on the event loop, where others wait`() async throws {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let (short, long) = try await withTaskExecutorPreference(EventLoopExecutor(loop)) {
      (
        try await LongRead.of(10_000) { loop.inEventLoop },
        try await LongRead.of(1 << 20) { loop.inEventLoop }
      )
    }
    #expect(short && !long)
  }

  @Test(arguments: [(bytes: 100, staysThere: true), (bytes: 20_000, staysThere: false)])
  func `A call with a long body is not answered on the event loop`(_ call: (bytes: Int, staysThere: Bool))
    async throws
  {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let router = Routes()
    router.add(EnvelopeLayer())
    router.endpoint("/", .post) { request, _ in
      let body = try await request.wholeBody(upTo: call.bytes)
      return Response(
        status: loop.inEventLoop == call.staysThere ? .ok : .conflict,
        headers: [.eTag: "\(body.readableBytes)"])
    }
    let head = HTTPRequest(
      method: .post, scheme: "http", authority: "a", path: "/",
      headerFields: [.contentLength: "\(call.bytes)"])
    let request = Request(
      head: head, body: RequestBody(buffer: ByteBuffer(repeating: 0x61, count: call.bytes)))
    let responder = router.buildResponder()
    let response = try await withTaskExecutorPreference(EventLoopExecutor(loop)) {
      try await responder.respond(to: request, context: WireContext(inProcess: .quiet))
    }
    #expect(response.status == .ok && response.headers[.eTag] == "\(call.bytes)")
  }

  @Test func `However many long calls there are, Swift's own threads are left to others`() async throws {
    let gate = DispatchSemaphore(value: 0)
    let begun = DispatchSemaphore(value: 0)
    let router = Routes()
    router.add(EnvelopeLayer())
    router.endpoint("/", .post) { _, _ in
      begun.signal()
      Self.block(gate)
      return Response(status: .ok)
    }
    let responder = router.buildResponder()
    let head = HTTPRequest(
      method: .post, scheme: "http", authority: "a", path: "/", headerFields: [.contentLength: "20000"])
    let count = NIOCore.System.coreCount
    let wasFree = Mutex(false)
    // A thread of its own says whether Swift's were free: they may all be blocked.
    Thread.detachNewThread {
      for _ in 0..<count { begun.wait() }
      let answered = DispatchSemaphore(value: 0)
      Task.detached { answered.signal() }
      wasFree.withLock { $0 = answered.wait(timeout: .now() + 10) == .success }
      for _ in 0..<2 * count { gate.signal() }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<2 * count {
        group.addTask {
          let request = Request(head: head, body: RequestBody(buffer: ByteBuffer()))
          let response = try await responder.respond(to: request, context: WireContext(inProcess: .quiet))
          #expect(response.status == .ok)
        }
      }
      try await group.waitForAll()
    }
    #expect(wasFree.withLock { $0 })
  }

  /// Blocks the thread, as a long computation does.
  private static func block(_ gate: DispatchSemaphore) { gate.wait() }

  @Test func `Who comes later with little does not wait for all that another has`() async throws {
    let many = try #require(ClientAddress("192.0.2.1"))
    let few = try #require(ClientAddress("192.0.2.2"))
    let order = Mutex<[ClientAddress]>([])
    let gate = DispatchSemaphore(value: 0)
    try await withThrowingTaskGroup(of: Void.self) { group in
      func add(of source: ClientAddress, _ work: @escaping @Sendable () -> Void) {
        group.addImmediateTask {
          try await LongRead.$source.withValue(source) { try await LongRead.piece(work) }
        }
      }
      // Nothing is done before all are there.
      add(of: .loopback) { gate.wait() }
      for source in [ClientAddress](repeating: many, count: 20) + [few, few] {
        add(of: source) { order.withLock { $0.append(source) } }
      }
      gate.signal()
      try await group.waitForAll()
    }
    #expect(order.withLock { Array($0.prefix(5)) } == [many, few, many, few, many])
  }
}
