import HTTPClient
import Providers
import SQL

/// A deliberately faulty part of the service. The world has to detect it.
struct StandIn: Sendable {
  let name: String
  /// Wraps the nodes' database connections.
  var connection: @Sendable (_ connection: any Connection, _ world: World) -> any Connection = {
    connection, _ in
    connection
  }
  /// Changes the providers' answers.
  var answer:
    @Sendable (_ answer: Result<ProviderResponse, TransportFailure>, _ world: World) -> Result<
      ProviderResponse, TransportFailure
    > = { answer, _ in answer }
  /// Changes the answers of the upstream bouncer.
  var upstreamAnswer:
    @Sendable (_ answer: Result<ProviderResponse, TransportFailure>, _ world: World) -> Result<
      ProviderResponse, TransportFailure
    > = { answer, _ in answer }
  /// Changes a push proxy's answers to the built-in Nextcloud server about pushes to these devices.
  var proxyAnswer: @Sendable (_ devices: [String], _ answer: Answer?) -> Answer? = { $1 }
  /// Changes requests on their way to a push service.
  var request: @Sendable (_ request: PushService.Request, _ world: World) -> PushService.Request = {
    request, _ in request
  }
  /// Changes pushes on their way to a provider.
  var push: @Sendable (_ push: ReceivedPush) -> ReceivedPush = { $0 }
  /// Called when a node is killed, to lose more than the process.
  var killed: @Sendable (_ world: World) -> Void = { _ in }
  /// Whether a node waits for a provider without a time limit.
  var hasNoDeadline = false
  /// Whether a node never doubts its clock.
  var trustsAnyClock = false
  /// Whether a node does not heed changes of its key folder.
  var keepsCredentials = false
  /// Changes the answers to chat servers.
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

  /// No fault.
  static let none = StandIn("none")
  static let all =
    storage + answers + replies + nextcloud + chat + nextcloudServer + gateway + upstream + slow + tenants
}
