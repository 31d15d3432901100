import NIOCore
import NIOPosix
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
}
