internal import Logging

/// Does what has gathered, in rounds: at once when somebody wakes it, and twice a second for what comes
/// due and for what a node that died had taken.
final class WorkLoop: Sendable {
  private static let interval = Duration.milliseconds(500)

  private let name: String
  private let logger: Logger
  private let wakeUp = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

  /// - Parameter name: what is worked on, for the log.
  init(_ name: String, logger: Logger) {
    self.name = name
    self.logger = logger
  }

  /// There is something new: need not wait for the next look.
  func wake() {
    wakeUp.continuation.yield()
  }

  /// Works until the task is cancelled.
  ///
  /// - Parameter round: does as much as may be done at once; whether there may be more.
  func run(_ round: @escaping @Sendable () async throws -> Bool) async {
    await withTaskGroup { group in
      group.addTask {
        while !Task.isCancelled {
          self.wake()
          try? await Task.sleep(for: Self.interval)
        }
      }
      for await _ in wakeUp.stream {
        do {
          while !Task.isCancelled, try await round() {}
        } catch {
          logger.error("\(name) cannot be worked on", metadata: ["error": "\(type(of: error))"])
        }
      }
    }
  }
}
