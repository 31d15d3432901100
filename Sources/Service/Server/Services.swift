import Foundation
import Logging
import NIOCore
import NIOPosix
import Platform
import SQL
import ServiceLifecycle
import Synchronization

/// Does nothing until the shutdown, and then calls `close`. A service group shuts its services down in
/// reverse order.
struct ShutdownHook: Service {
  let close: @Sendable () async -> Void

  func run() async throws {
    try? await gracefulShutdown()
    await close()
  }
}

/// A listener whose shutdown waits only a limited time for running requests.
struct DeadlineService<Listener: Service>: Service {
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

/// Work whose task is cancelled in the shutdown.
struct BackgroundWork: Service {
  let work: @Sendable () async -> Void

  func run() async throws {
    await cancelWhenGracefulShutdown(work)
    // If the work ends earlier, the service waits for the shutdown, because the group would stop otherwise.
    try? await gracefulShutdown()
  }
}

/// Keeps this process in the list of nodes. It ends the service if another one has changed the storage key, or
/// the schema beyond what this program knows, because this one was silent for too long.
struct Presence: Service {
  let store: Store

  func run() async throws {
    try await cancelWhenGracefulShutdown { try await store.nodes.stay(store.storageKey, isServing: true) }
  }
}

/// A listener's port, known once it listens.
package final class Port: Sendable {
  private struct State {
    var number: Int?
    var waiting: [CheckedContinuation<Int, Never>] = []
  }

  private let state = Mutex(State())

  var number: Int? { state.withLock { $0.number } }

  /// Waits until the listener listens.
  package func wait() async -> Int {
    await withCheckedContinuation { continuation in
      let number = state.withLock { state in
        if state.number == nil { state.waiting.append(continuation) }
        return state.number
      }
      if let number { continuation.resume(returning: number) }
    }
  }

  /// Publishes the port, and logs it.
  func announce(_ listener: String, scheme: String, _ channel: any Channel, logger: Logger) {
    // A listener that has already been closed has no address.
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
  /// Notifies systemd that the service is ready once it listens and the database answers, and after that
  /// periodically that it is alive.
  ///
  /// The service counts as alive while every event loop runs and the database answers or fails, but does not
  /// hang. An outage of the database is no reason to restart: a restart would not end it, and would interrupt
  /// requests that wait for its end.
  func follow(_ database: any Database, logger: Logger, isListening: () -> Bool) async {
    // Without it systemd would end the start, so it is sent until systemd takes it.
    var ready = Result.full
    while true {
      if isListening(), await answers(database) { ready = notify(.ready) }
      guard ready == .full else { break }
      guard (try? await Task.sleep(for: .milliseconds(50))) != nil else { return }
    }
    if ready == .notListening { logger.warning("NOTIFY_SOCKET: systemd is not listening there") }
    guard let watchdogInterval else { return }
    var pause = watchdogInterval
    repeat {
      for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() { try? await loop.submit {}.get() }
      _ = await answers(database)
      // A whole interval later could be too late.
      pause = notify(.alive) == .full ? min(.seconds(1), watchdogInterval) : watchdogInterval
    } while (try? await Task.sleep(for: pause)) != nil
  }

  private func answers(_ database: any Database) async -> Bool {
    (try? await database.query(Statement("SELECT 1"))) != nil
  }
}
