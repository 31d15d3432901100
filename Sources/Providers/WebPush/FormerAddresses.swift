import Synchronization

/// What names meant when they last answered, for when name servers have no time: many dead hosts keep those who ask busy,
/// and are to hold up nobody who was there before.
final class FormerAddresses: Sendable {
  /// So many names are remembered, twice over.
  private static let most = WebPushHosts.most

  private struct State {
    var late: [String: [String]] = [:]
    var early: [String: [String]] = [:]
  }

  private let state = Mutex(State())

  /// A name's addresses; nil for one that has not answered.
  subscript(name: String) -> [String]? { state.withLock { $0.late[name] ?? $0.early[name] } }

  /// A name has answered. That it has no address is not kept: name servers that are away look like that, too.
  func note(_ addresses: [String], of name: String) {
    guard !addresses.isEmpty else { return }
    state.withLock { state in
      if state.late.count >= Self.most { (state.early, state.late) = (state.late, [:]) }
      state.late[name] = addresses
    }
  }
}
