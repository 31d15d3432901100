import Providers
import SQL

/// A part of the service as it must not be: it stands between the real parts and the world, which has to notice.
struct StandIn: Sendable {
  let name: String
  /// What the nodes' statements go through.
  var connection: @Sendable (_ connection: any Connection, _ world: World) -> any Connection = {
    connection, _ in
    connection
  }
  /// What the providers' answers go through.
  var answer:
    @Sendable (_ answer: Result<ProviderResponse, TransportFailure>, _ world: World) -> Result<
      ProviderResponse, TransportFailure
    > = { answer, _ in answer }
  /// What the pushes go through on their way to a provider.
  var push: @Sendable (_ push: ReceivedPush) -> ReceivedPush = { $0 }
  /// What else is lost when a node is killed.
  var killed: @Sendable (_ world: World) -> Void = { _ in }
  /// Whether it waits for a provider however long that takes.
  var hasNoDeadline = false
  /// What the answers to chat servers go through.
  var reply: @Sendable (_ endpoint: String, _ answer: Answer?) -> Answer? = { $1 }

  init(_ name: String, _ set: (inout StandIn) -> Void = { _ in }) {
    self.name = name
    set(&self)
  }

  func answer(to endpoint: String, _ answer: Answer?) -> Answer? { reply(endpoint, answer) }
  func connection(_ connection: any Connection, _ world: World) -> any Connection {
    self.connection(connection, world)
  }
  func answer(_ answer: Result<ProviderResponse, TransportFailure>, _ world: World) -> Result<
    ProviderResponse, TransportFailure
  > { self.answer(answer, world) }

  /// The service as it is.
  static let none = StandIn("none")
  static let all = storage + answers + replies + nextcloud + chat
}
