import Basics
import Synchronization
import Testing

private func cancel() { withUnsafeCurrentTask { $0?.cancel() } }

@Suite struct WorkTests {
  private struct Failure: Error {}

  @Test func `Something is done again and again until its task is cancelled, whatever it throws`() async {
    await Task {
      var (times, errors) = (0, 0)
      await every(.zero) {
        times += 1
        if times == 4 { cancel() }
        if times.isMultiple(of: 2) { throw Failure() }
      } onError: { error in
        errors += 1
        #expect(error is Failure)
      }
      #expect((times, errors) == (4, 2))
    }.value
  }

  @Test func `Nothing is done in a task that is cancelled already`() async {
    await Task {
      cancel()
      await every(.zero) { Issue.record("done") }
    }.value
  }

  @Test func `A pause ends with its task`() async {
    let (begun, begins) = AsyncStream.makeStream(of: Void.self)
    let task = Task { await every(.seconds(3600)) { begins.yield() } }
    for await _ in begun { break }
    task.cancel()
    await task.value
  }

  // MARK: Worker

  /// Twenty jobs, the first of which is stuck.
  private final class Jobs: Sendable {
    let left = Mutex(Array(0..<20))
    let doing = Atomic(0)
    let most = Atomic(0)
    let done = Mutex<Set<Int>>([])
    let stuck = AsyncStream.makeStream(of: Void.self)
    let rest = AsyncStream.makeStream(of: Void.self)

    func take(_ count: Int) -> [(owner: String, job: Int)] {
      left.withLock { left in
        defer { left.removeFirst(min(count, left.count)) }
        return left.prefix(count).map { ($0 == 0 ? "stuck" : "quick", $0) }
      }
    }

    func work(_ job: Int) async {
      most.max(doing.add(1, ordering: .relaxed).newValue, ordering: .relaxed)
      if job == 0 { for await _ in stuck.stream {} }
      doing.subtract(1, ordering: .relaxed)
      let count = done.withLock { done in
        done.insert(job)
        return done.count
      }
      if count == 19 { rest.continuation.finish() }
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func `A worker does a few jobs at once, and takes the next as soon as one is done`() async {
    let jobs = Jobs()
    let task = Task {
      await Worker(every: .seconds(3600)).run(
        atOnce: 3,
        take: { (free: Int, busy: Set<String>) in
          #expect(free > 0 && busy.count <= 2)
          return jobs.take(free)
        }, work: { await jobs.work($0) }, onError: { _ in Issue.record("nothing failed") })
    }
    for await _ in jobs.rest.stream {}
    #expect(jobs.done.withLock { $0 } == Set(1..<20) && jobs.most.load(ordering: .relaxed) <= 3)
    jobs.stuck.continuation.finish()
    task.cancel()
    await task.value
    #expect(jobs.done.withLock { $0.count } == 20)
  }

  @Test func `A worker goes on while there may be more, and then waits until it is woken`() async {
    let worker = Worker(every: .seconds(3600))
    let left = Mutex(3)
    let (rounds, report) = AsyncStream.makeStream(of: Int.self)
    let task = Task {
      await worker.run {
        let rest = left.withLock { left in
          left -= 1
          return left
        }
        report.yield(rest)
        return rest > 0
      } onError: { _ in
        Issue.record("nothing failed")
      }
    }
    var iterator = rounds.makeAsyncIterator()
    #expect([await iterator.next(), await iterator.next(), await iterator.next()] == [2, 1, 0])
    left.withLock { $0 = 2 }
    worker.wake()
    #expect([await iterator.next(), await iterator.next()] == [1, 0])
    task.cancel()
    await task.value
  }

  @Test func `Whoever wakes a worker during a round is heard after it, however often`() async {
    let worker = Worker(every: .seconds(3600))
    let (rounds, report) = AsyncStream.makeStream(of: Int.self)
    let task = Task {
      var count = 0
      await worker.run {
        count += 1
        if count == 1 { for _ in 0..<10 { worker.wake() } }
        report.yield(count)
        if count == 2 { cancel() }
        return false
      } onError: { _ in
        Issue.record("nothing failed")
      }
      report.finish()
    }
    #expect(await rounds.reduce(into: []) { $0.append($1) } == [1, 2])
    await task.value
  }

  /// Rounds of which some fail: of each series the first error is told.
  private struct Played {
    private(set) var (count, told) = (0, [Int]())

    mutating func round() throws {
      count += 1
      if count == 7 { cancel() }
      if [1, 2, 3, 6].contains(count) { throw Failure() }
    }

    mutating func tell() { told.append(count) }
  }

  @Test func `A worker looks by itself, and goes on after rounds that failed`() async {
    await Task {
      var played = Played()
      await Worker(every: .milliseconds(1)).run {
        try played.round()
        return false
      } onError: { _ in
        played.tell()
      }
      #expect(played.count == 7)
      #expect(played.told == [1, 6])
    }.value
  }

  @Test func `A worker that always has more to do ends with its task`() async {
    await Task {
      var count = 0
      await Worker().run {
        count += 1
        if count == 100 { cancel() }
        return true
      } onError: { _ in
      }
      #expect(count == 100)
    }.value
  }

  // MARK: Lanes

  @Test func `Lanes do not wait for each other`() async {
    let (gate, opening) = AsyncStream.makeStream(of: Void.self)
    let (ended, ends) = AsyncStream.makeStream(of: String.self)
    let task = Task {
      await Lanes(every: .milliseconds(1)).run {
        ["slow", "quick"]
      } round: { lane in
        if lane == "slow" { for await _ in gate {} }
        ends.yield(lane)
        return false
      } onError: { _ in
      }
    }
    var iterator = ended.makeAsyncIterator()
    for _ in 0..<3 { #expect(await iterator.next() == "quick") }
    opening.finish()
    while let lane = await iterator.next(), lane != "slow" {}
    task.cancel()
    await task.value
  }

  @Test func `Lanes are looked for again after looks that failed`() async {
    await Task {
      var played = Played()
      await Lanes<Int>(every: .milliseconds(1)).run {
        try played.round()
        return []
      } round: { _ in
        false
      } onError: { _ in
        played.tell()
      }
      #expect(played.count == 7)
      #expect(played.told == [1, 6])
    }.value
  }

  @Test func `There is one round at a time in a lane, and the last one ends before the work does`() async {
    let underWay = Mutex(0)
    let most = Mutex(0)
    let rounds = Mutex(0)
    await Task {
      var looks = 0
      await Lanes(every: .zero).run {
        looks += 1
        if looks > 100, rounds.withLock({ $0 }) > 10 { cancel() }
        return [1]
      } round: { _ in
        let count = underWay.withLock { count in
          count += 1
          return count
        }
        most.withLock { $0 = max($0, count) }
        for _ in 0..<5 { await Task.yield() }
        underWay.withLock { $0 -= 1 }
        return rounds.withLock { rounds in
          rounds += 1
          return rounds.isMultiple(of: 2)
        }
      } onError: { _ in
      }
      #expect(underWay.withLock { $0 } == 0)
    }.value
    #expect(most.withLock { $0 } == 1)
  }
}
