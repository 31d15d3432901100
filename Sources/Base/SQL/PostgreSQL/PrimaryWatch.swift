import Synchronization

/// Notices that another server has become the primary while a session's own one says nothing: a machine that loses its
/// power or its network does not say so.
final class PrimaryWatch: Sendable {
  /// A server that sessions belong to.
  struct Server: Sendable, Hashable {
    /// As in the URL.
    let host: String
    let port: String
    /// When it was started, in the server's own words. Two servers at one address differ in it.
    let startedAt: String
  }

  /// The silence after which a session looks for another primary, and the least time between two looks.
  static let pause = Duration.seconds(1)

  private let settings: PostgreSQLSettings
  /// When the last look ended. Locked during a look, so that sessions that wait at the same time share one.
  private let lastLook = Mutex<ContinuousClock.Instant?>(nil)
  private let replaced = Mutex<Server?>(nil)

  init(_ settings: PostgreSQLSettings) { self.settings = settings }

  /// The server that another one was last found to have replaced. It is never a primary again before it is restarted;
  /// if it still takes writes, nobody else sees them.
  var replacedServer: Server? { replaced.withLock(\.self) }

  /// Whether another server takes writes in place of this one, which says nothing. Blocks for up to `connect_timeout`
  /// a host.
  func isReplaced(_ server: Server) -> Bool {
    lastLook.withLock { lastLook in
      if replacedServer == server { return true }
      if let lastLook, ContinuousClock.now < lastLook + Self.pause { return false }
      defer { lastLook = .now }
      guard let other = try? PostgreSQLHandle(settings.besides(server)), other.server != server else {
        return false
      }
      replaced.withLock { $0 = server }
      return true
    }
  }
}
