import Basics
import Synchronization
import TestSupport
import Testing

/// What has happened, in order.
private final class Order: Sendable {
  private let counts = Mutex<[Int]>([])

  var all: [Int] { counts.withLock(\.self) }

  func add(_ count: Int) { counts.withLock { $0.append(count) } }
}

@Suite("Permits that an owner holds at a time")
struct FairSemaphoreTests {
  @Test
  func `are waited for in the order of arrival, and by nobody else`() async throws {
    let places = FairSemaphore<Int>(100, each: 10)
    let order = Order()
    try await places.acquire(8, of: 1)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for count in [5, 2, 6] {
        group.addImmediateTask {
          try await places.acquire(count, of: 1)
          order.add(count)
        }
      }
      try await places.acquire(10, of: 2)
      #expect(order.all.isEmpty)
      places.release(8, of: 1)
      await eventually { order.all.count == 2 }
      #expect(Set(order.all) == [5, 2])
      places.release(5, of: 1)
      try await group.waitForAll()
      #expect(order.all.last == 6)
      #expect(places.taken == 18)
    }
  }

  @Test
  func `are given to owners in turn where all are taken`() async throws {
    let places = FairSemaphore<Int>(10, each: 6)
    let order = Order()
    try await places.acquire(6, of: 1)
    try await places.acquire(4, of: 2)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for owner in [1, 1, 1, 3, 4] {
        group.addImmediateTask {
          try await places.acquire(4, of: owner)
          order.add(owner)
        }
      }
      var wanted: [Int] = []
      // The first has as many as it may when it asks for more, so the next one comes first.
      for (count, owner, next) in [(6, 1, 3), (4, 2, 1), (4, 3, 4), (4, 1, 1)] {
        places.release(count, of: owner)
        wanted.append(next)
        await eventually { order.all == wanted }
      }
      places.release(4, of: 4)
      #expect(order.all == wanted)
      places.release(4, of: 1)
      try await group.waitForAll()
    }
    places.release(4, of: 1)
    #expect(places.taken == 0)
  }

  @Test
  func `are not taken by who has gone meanwhile`() async throws {
    let places = FairSemaphore<Int>(1, each: 1)
    try await places.acquire(1, of: 1)
    let late = Task { try await places.acquire(1, of: 1) }
    late.cancel()
    places.release(1, of: 1)
    await #expect(throws: CancellationError.self) { try await late.value }
    try await places.acquire(1, of: 1)
  }

  @Test
  func `are not waited for longer than said, and who gives up keeps nobody waiting`() async throws {
    let places = FairSemaphore<Int>(10, each: 6)
    try await places.acquire(6, of: 1)
    let next = Task.immediate { try await places.acquire(1, of: 1) }
    #expect(try await places.acquire(5, of: 2, within: .milliseconds(1)) == false)
    #expect(places.waiting == 1 && places.taken == 6)
    // Whoever gives up may have kept others of the same owner waiting.
    let long = Task.immediate { try await places.acquire(5, of: 3, within: .milliseconds(10)) }
    let short = Task.immediate { try await places.acquire(4, of: 3) }
    #expect(try await long.value == false)
    #expect(try await short.value)
    places.release(6, of: 1)
    #expect(try await next.value)
    #expect(places.taken == 5 && places.waiting == 0)
  }

  @Test
  func `are given to who wants few although one with its share wants many, but not before one that has none`()
    async throws
  {
    let places = FairSemaphore<Int>(10, each: 6)
    let order = Order()
    try await places.acquire(6, of: 1)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (owner, count) in [(1, 5), (2, 2), (3, 4), (4, 1)] {
        group.addImmediateTask {
          try await places.acquire(count, of: owner)
          order.add(owner)
        }
      }
      await eventually { order.all == [2] }
      #expect(places.taken == 8 && places.waiting == 3)
      places.release(2, of: 2)
      await eventually { Set(order.all) == [2, 3] }
      #expect(places.taken == 10)
      places.release(6, of: 1)
      try await group.waitForAll()
    }
  }

  @Test
  func `are taken at once or not at all, and not before those that wait`() async throws {
    let places = FairSemaphore<Int>(1000)
    let first = try #require(places.take(750, of: 1))
    #expect(places.take(1, of: 1) == nil)
    let second = Task.immediate { try await places.acquire(200, of: 2) }
    #expect(places.waiting == 1)
    #expect(places.take(1, of: 3) == nil)
    first.release()
    #expect(try await second.value)
    #expect(places.take(1, of: 3) != nil)
    #expect(places.taken == 201)
  }
}
