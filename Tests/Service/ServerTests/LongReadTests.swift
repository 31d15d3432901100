import Dispatch
import NIOCore
import NIOPosix
import Synchronization
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
