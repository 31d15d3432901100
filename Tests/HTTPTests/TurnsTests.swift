import HTTP
import Synchronization
import TestSupport
import Testing

@Suite struct TurnsTests {
  /// Those who have had their turn, and those who may leave.
  private final class Room: Sendable {
    let turns: Turns<Int>
    private let entered = Mutex<[Int]>([])

    init(_ limit: Int) { turns = Turns(limit) }

    var order: [Int] { entered.withLock { $0 } }

    /// Comes in and stays until the stream ends.
    func come(_ owner: Int, until stream: AsyncStream<Void>, within limit: Duration = .seconds(60)) -> Task<
      Bool, Never
    > {
      Task {
        await turns.run(owner, within: limit) {
          self.entered.withLock { $0.append(owner) }
          for await _ in stream {}
          return true
        } ?? false
      }
    }
  }

  @Test func `Owners take turns, each alone, and no more at a time than may`() async {
    let room = Room(2)
    var doors: [AsyncStream<Void>.Continuation] = []
    var tasks: [Task<Bool, Never>] = []
    // The first owner comes five times before the others come.
    for (index, owner) in [1, 1, 1, 1, 1, 2, 3].enumerated() {
      let (stream, door) = AsyncStream.makeStream(of: Void.self)
      doors.append(door)
      tasks.append(room.come(owner, until: stream))
      await eventually("everybody is there") { room.order.count + room.turns.waiting == index + 1 }
    }
    #expect(room.order == [1, 2])
    doors[0].finish()
    await eventually("the next") { room.order.count == 3 }
    // The third has waited for less time than the first's second, but had no turn yet.
    #expect(room.order.last == 1 || room.order.last == 3)
    for door in doors { door.finish() }
    for task in tasks { #expect(await task.value) }
    #expect(room.order.count == 7 && Set(room.order.prefix(4)) == [1, 2, 3])
  }

  @Test func `Who waits too long goes, and keeps nobody from a turn`() async {
    let room = Room(1)
    let (stream, door) = AsyncStream.makeStream(of: Void.self)
    let first = room.come(1, until: stream)
    await eventually("it is in") { room.order == [1] }
    #expect(await room.come(2, until: stream, within: .milliseconds(1)).value == false)
    #expect(room.turns.waiting == 0)
    let third = room.come(3, until: stream)
    door.finish()
    #expect(await first.value)
    #expect(await third.value)
    #expect(room.order == [1, 3])
  }
}
