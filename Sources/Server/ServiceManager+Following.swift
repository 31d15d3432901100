import Logging
import NIOCore
import NIOPosix
import Operations
import SQL

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
