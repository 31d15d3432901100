package import Foundation
internal import Synchronization

/// The service's time, and whether anything may be taken as expired by it. Everything that has to do with time asks
/// here, so that a jump of the clock is noticed before anything uses the wrong time.
package final class ServiceTime: Sendable {
  private let wall: @Sendable () -> Date
  private let monotonic: @Sendable () -> Duration
  private let state: Mutex<ClockGuard>

  /// - Parameters:
  ///   - wall: the time of day.
  ///   - monotonic: what has passed since some moment, also while the machine slept.
  package init(
    wall: @escaping @Sendable () -> Date = { Date() },
    monotonic: @escaping @Sendable () -> Duration = { [start = ContinuousClock.now] in .now - start }
  ) {
    self.wall = wall
    self.monotonic = monotonic
    state = Mutex(ClockGuard(.init(wall: wall(), monotonic: monotonic())))
  }

  /// The time. While the clock is doubted it does not stand before the newest time that is known.
  package func now() -> Date {
    let wall = wall()
    return state.withLock { state in
      guard state.isSuspicious(wall) else { return wall }
      let reading = ClockGuard.Reading(wall: wall, monotonic: monotonic())
      state.look(reading)
      return state.now(reading)
    }
  }

  /// Whether anything may be taken as expired now: not while the clock is doubted.
  package func mayExpire() -> Bool {
    state.withLock { state in
      state.look(reading())
      return state.mayExpire
    }
  }

  /// Why the clock is doubted; nil if it is not.
  package var doubt: ClockDoubt? {
    state.withLock { state in
      state.look(reading())
      return state.doubt
    }
  }

  /// Whether the time was set back, that long ago or longer: what was put off before may be due far too late.
  func isSetBack(for duration: Duration) -> Bool {
    state.withLock { $0.isSetBack(for: duration, reading()) }
  }

  /// That has been dealt with.
  func forgetSetBack() {
    state.withLock { $0.forgetSetBack() }
  }

  /// Takes the newest time in the database.
  func hear(_ newest: Date?) {
    state.withLock { $0.hear(newest, reading()) }
  }

  /// This node has written the newest time.
  func wrote(_ newest: Date) {
    state.withLock { $0.wrote(newest) }
  }

  private func reading() -> ClockGuard.Reading { .init(wall: wall(), monotonic: monotonic()) }
}
