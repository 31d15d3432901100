import Basics
import Synchronization
import Testing

@Suite struct TimeoutTests {
  private struct Failure: Error {}

  @Test func `What is done in time is answered, be it nothing or an error`() async throws {
    #expect(try await withTimeout(.seconds(3600)) { 7 } == 7)
    #expect(try await withTimeout(.seconds(3600)) { nil as Int? } == .some(nil))
    await #expect(throws: Failure.self) { try await withTimeout(.seconds(3600)) { throw Failure() } }
  }

  @Test func `What takes longer is cancelled`() async throws {
    let isCancelled = Mutex(false)
    let answer: Void? = try await withTimeout(.milliseconds(1)) {
      defer { isCancelled.withLock { $0 = Task.isCancelled } }
      try await Task.sleep(for: .seconds(3600))
    }
    #expect(answer == nil)
    #expect(isCancelled.withLock { $0 })
  }

  @Test func `What does not heed its cancellation is waited for, and its answer too late`() async throws {
    let hasEnded = Mutex(false)
    let answer = try await withTimeout(.milliseconds(1)) {
      try? await Task.sleep(for: .seconds(3600))
      for _ in 0..<100 { await Task.yield() }
      hasEnded.withLock { $0 = true }
      return 7
    }
    #expect(answer == nil)
    #expect(hasEnded.withLock { $0 })
  }

  @Test(arguments: [Duration.zero, .seconds(-1)])
  func `Where there is no time nothing is begun`(limit: Duration) async throws {
    let answer: Void? = try await withTimeout(limit) { Issue.record("begun") }
    #expect(answer == nil)
  }

  @Test func `Who is cancelled hears what comes of it, and of no timeout`() async throws {
    let (begun, begins) = AsyncStream.makeStream(of: Void.self)
    let call = Task {
      try await withTimeout(.seconds(3600)) {
        begins.finish()
        try await Task.sleep(for: .seconds(3600))
      }
    }
    for await _ in begun {}
    call.cancel()
    await #expect(throws: CancellationError.self) { try await call.value }
    let heedless = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return try await withTimeout(.seconds(3600)) {
        for _ in 0..<100 { await Task.yield() }
        return 7
      }
    }
    #expect(try await heedless.value == 7)
  }

  @Test func `A task goes on when nobody waits for it any more`() async {
    let (gate, opening) = AsyncStream.makeStream(of: Void.self)
    let task = Task<Int, Never> {
      for await _ in gate {}
      return 7
    }
    #expect(await task.value(within: .milliseconds(1)) == nil)
    #expect(await task.value(within: .zero) == nil)
    let waiting = Task { await task.value(within: .seconds(3600)) }
    waiting.cancel()
    #expect(await waiting.value == nil)
    opening.finish()
    #expect(await task.value(within: .seconds(3600)) == 7)
    #expect(await task.value(within: .seconds(3600)) == 7)
  }

  /// Belongs to the tasks that are begun in its scope, and tells when the last of them has ended.
  private final class Witness: Sendable {
    @TaskLocal static var present: Witness?
    private let end: AsyncStream<Void>.Continuation
    init(_ end: AsyncStream<Void>.Continuation) { self.end = end }
    deinit { end.finish() }
  }

  @Test func `Nothing goes on for a limit that was not needed`() async throws {
    let (ended, ending) = AsyncStream.makeStream(of: Void.self)
    let task = Task { 7 }
    let answer = await Witness.$present.withValue(Witness(ending)) {
      await task.value(within: .seconds(3600))
    }
    #expect(answer == 7)
    let end: Void? = try await withTimeout(.seconds(10)) { for await _ in ended {} }
    #expect(end != nil)
  }
}
