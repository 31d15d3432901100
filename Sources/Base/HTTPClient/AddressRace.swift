import Synchronization

/// Connects to the first of a host's addresses that takes a connection (RFC 8305, "Happy Eyeballs"): tries one after
/// the other, the next one as soon as the last has failed, or has not answered for 250 ms. NIO does the same for names
/// that it looks up by itself, as Apple's and Google's.
final class AddressRace<Connection: Sendable>: Sendable {
  private enum Event: Sendable {
    case connected
    case failed(any Error)
    /// The pause after an attempt is over; with the number of addresses that were left then.
    case waited(Int)
  }

  private enum State {
    case running
    case won(String, Connection)
    case over
  }

  private let connect: @Sendable (String) async throws -> Connection
  private let close: @Sendable (Connection) -> Void
  private let state = Mutex(State.running)

  private init(
    _ connect: @escaping @Sendable (String) async throws -> Connection,
    _ close: @escaping @Sendable (Connection) -> Void
  ) {
    self.connect = connect
    self.close = close
  }

  /// The first connection, and its address.
  ///
  /// - Parameters:
  ///   - connect: opens a connection to an address; must end by itself.
  ///   - close: closes one that nobody needs any more.
  /// - Throws: why there is none: of the first address whose network can be reached; or `CancellationError`.
  static func run(
    _ addresses: [String], connect: @escaping @Sendable (String) async throws -> Connection,
    close: @escaping @Sendable (Connection) -> Void
  ) async throws -> (address: String, connection: Connection) {
    let race = AddressRace(connect, close)
    let (events, continuation) = AsyncStream.makeStream(of: Event.self)
    var rest = addresses[...]
    var failures: [any Error] = []
    func start() {
      guard let address = rest.popFirst() else { return }
      race.start(address, rest.count, continuation)
    }
    start()
    for await event in events {
      switch event {
      case .connected:
        if let winner = race.finish() { return winner }
      case .waited(let left):
        if left == rest.count { start() }
      case .failed(let error):
        failures.append(error)
        guard failures.count < addresses.count else {
          throw failures.first { ConnectionFailure($0) != .networkUnreachable } ?? error
        }
        start()
      }
    }
    if let winner = race.finish() { close(winner.connection) }
    throw CancellationError()
  }

  private func start(_ address: String, _ left: Int, _ events: AsyncStream<Event>.Continuation) {
    Task {
      do {
        let connection = try await connect(address)
        let isFirst = state.withLock { state in
          guard case .running = state else { return false }
          state = .won(address, connection)
          return true
        }
        if isFirst { events.yield(.connected) } else { close(connection) }
      } catch {
        events.yield(.failed(error))
      }
    }
    Task {
      try? await Task.sleep(for: .milliseconds(250))
      events.yield(.waited(left))
    }
  }

  /// Ends the race; returns the winner, if there is one and it was not returned before.
  private func finish() -> (address: String, connection: Connection)? {
    state.withLock { state in
      defer { state = .over }
      if case .won(let address, let connection) = state { return (address, connection) }
      return nil
    }
  }
}
