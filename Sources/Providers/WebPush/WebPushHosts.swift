import Synchronization

/// The push services that were used of late, each with its connections and its health. When there are too many some go, and
/// what was learned about them goes along: those that do not work before those that do, of these the ones that were not
/// used for longest.
final class WebPushHosts: Sendable {
  /// So many are known at a time.
  static let most = 10_000

  private struct Host {
    let sender: RouteSender
    let transport: any Transport
    var lastUsed: Int
  }

  private struct State {
    var hosts: [String: Host] = [:]
    var uses = 0
    var isClosed = false

    /// Takes out a tenth of all.
    mutating func makeRoom() -> [any Transport] {
      let ranked = hosts.map { authority, host in
        (authority: authority, host: host, works: host.sender.state == .ok)
      }
      let leaving = ranked.sorted {
        $0.works == $1.works ? $0.host.lastUsed < $1.host.lastUsed : !$0.works
      }.prefix(hosts.count / 10 + 1)
      for (authority, _, _) in leaving { hosts[authority] = nil }
      return leaving.map(\.host.transport)
    }
  }

  private let most: Int
  private let make: @Sendable (WebPushEndpoint) -> (RouteSender, any Transport)
  private let state = Mutex(State())

  /// - Parameter make: makes a host's sender.
  init(
    most: Int = WebPushHosts.most,
    make: @escaping @Sendable (WebPushEndpoint) -> (RouteSender, any Transport)
  ) {
    self.most = most
    self.make = make
  }

  /// What sends to an endpoint, and the transports that are to be closed: of those that had to go for it, and after
  /// ``close()`` its own.
  func routeSender(for endpoint: WebPushEndpoint) -> (sender: RouteSender, left: [any Transport]) {
    state.withLock { state in
      state.uses += 1
      if let sender = state.hosts[endpoint.authority]?.sender {
        state.hosts[endpoint.authority]?.lastUsed = state.uses
        return (sender, [])
      }
      var left = state.hosts.count >= most ? state.makeRoom() : []
      let (sender, transport) = make(endpoint)
      if state.isClosed { left.append(transport) }
      state.hosts[endpoint.authority] = Host(sender: sender, transport: transport, lastUsed: state.uses)
      return (sender, left)
    }
  }

  var routeSenders: [RouteSender] { state.withLock { $0.hosts.values.map(\.sender) } }

  /// Takes no more messages; the transports of all hosts.
  func close() -> [any Transport] {
    state.withLock { state in
      state.isClosed = true
      return state.hosts.values.map(\.transport)
    }
  }
}
