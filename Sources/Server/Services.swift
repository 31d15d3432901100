import Foundation
import Logging
import NIOCore
import NIOPosix
import Operations
import SQL
import ServiceLifecycle
import Synchronization

/// Does nothing until its turn in the shutdown, and then closes something. The last in the group is the first to be shut
/// down.
struct Closing: Service {
  let close: @Sendable () async -> Void

  func run() async throws {
    try? await gracefulShutdown()
    await close()
  }
}

/// A listener that gets a limited time in the shutdown to finish what it has begun.
struct Bounded<Listener: Service>: Service {
  let listener: Listener
  let limit: Duration

  func run() async throws {
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await listener.run() }
      tasks.addTask {
        try? await gracefulShutdown()
        try? await Task.sleep(for: limit)
      }
      defer { tasks.cancelAll() }
      try await tasks.next()
    }
  }
}

/// Work that goes on until the shutdown, which cancels its task.
struct Repeating: Service {
  let work: @Sendable () async -> Void

  func run() async throws {
    await cancelWhenGracefulShutdown(work)
    // Work that is done before that ends nothing else.
    try? await gracefulShutdown()
  }
}

/// The port that a listener was given, known once it listens.
package final class Port: Sendable {
  private struct State {
    var number: Int?
    var waiting: [CheckedContinuation<Int, Never>] = []
  }

  private let state = Mutex(State())

  var number: Int? { state.withLock { $0.number } }

  /// The port, as soon as the listener listens.
  package func wait() async -> Int {
    await withCheckedContinuation { continuation in
      let number = state.withLock { state in
        if state.number == nil { state.waiting.append(continuation) }
        return state.number
      }
      if let number { continuation.resume(returning: number) }
    }
  }

  /// Makes it known, in the log too.
  func announce(_ listener: String, scheme: String, _ channel: any Channel, logger: Logger) {
    // A listener that is closed again already has no address.
    guard let address = channel.localAddress, let number = address.port else { return }
    let waiting = state.withLock { state in
      state.number = number
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume(returning: number) }
    let host = address.ipAddress ?? ""
    logger.notice(
      "listening on \(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(number)",
      metadata: ["listener": "\(listener)", "host": "\(host)", "port": .stringConvertible(number)])
  }
}

extension ServiceManager {
  /// Says that the service is ready once it listens and the database answers, and then again and again that it is alive.
  ///
  /// It is alive while every event loop does its work and the database answers or fails. An outage of the database
  /// is not a reason to restart: a restart would not mend it, and requests are waiting for its end.
  func follow(_ database: any Database, logger: Logger, isListening: () -> Bool) async {
    while true {
      if isListening(), await answers(database) { break }
      guard (try? await Task.sleep(for: .milliseconds(50))) != nil else { return }
    }
    if !tell(.ready) { logger.warning("NOTIFY_SOCKET: nobody listens there") }
    guard let watchdogInterval else { return }
    repeat {
      for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() { try? await loop.submit {}.get() }
      _ = await answers(database)
      tell(.alive)
    } while (try? await Task.sleep(for: watchdogInterval)) != nil
  }

  private func answers(_ database: any Database) async -> Bool {
    (try? await database.query(Statement("SELECT 1"))) != nil
  }
}
