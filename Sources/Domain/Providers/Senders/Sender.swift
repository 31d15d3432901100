import Basics
import Foundation
import HTTPClient
import NIOCore

/// Sends the pushes of one credential, or to one push service. Adds a token to each request, and sends it
/// once more if another token or connection may help.
///
/// A class, because each step of a task that has it would have a copy otherwise.
final class Sender: Sendable {
  let provider: Route.Provider
  let origin: Origin
  /// The URL's path, and the host of the sign-in, where requests need them.
  let path: String
  let tokenHost: String
  let transport: any Transport
  /// Set for APNs.
  let environment: APNsCredential.Environment?
  let authority: Authority
  /// Whether the name of a push service can never be found: whatever is to be sent there is dead.
  let neverResolves: Bool
  /// Used with ``Authority/owners(_:)`` only.
  let introduced = Introduced()
  let now: @Sendable () -> Date

  init(
    provider: Route.Provider, origin: Origin, path: String = "", tokenHost: String = "",
    transport: any Transport, environment: APNsCredential.Environment? = nil, authority: Authority,
    neverResolves: Bool = false, now: @escaping @Sendable () -> Date
  ) {
    self.provider = provider
    self.origin = origin
    self.path = path
    self.tokenHost = tokenHost
    self.transport = transport
    self.environment = environment
    self.authority = authority
    self.neverResolves = neverResolves
    self.now = now
  }

  /// Where the value of `Authorization` comes from.
  enum Authority: Sendable {
    /// Shared by all senders with the same key.
    case tokens(TokenSource)
    /// Each owner has its own; nil if that is not known.
    case owners(@Sendable (Owner) async -> SignIn?)
  }

  /// Whether each owner signs in for itself.
  var hasOwners: Bool { if case .owners = authority { true } else { false } }

  /// The result of a push or a call. A class for the same reason.
  final class Answer: Sendable {
    let outcome: Outcome
    let source: Outcome.Source
    /// The provider's answer, if it was a call.
    let response: ProviderResponse?
    /// Set by the route, if it is the token that has to wait.
    let pause: TokenPause?

    init(
      _ outcome: Outcome, _ source: Outcome.Source, _ response: ProviderResponse? = nil,
      pause: TokenPause? = nil
    ) {
      self.outcome = outcome
      self.source = source
      self.response = response
      self.pause = pause
    }

    /// Whether the provider did not answer, for a reason that concerns the route.
    var isInVain: Bool {
      switch outcome {
      case .retry(_, _, .route), .retry(_, _, .connection): source == .transport
      case .delivered, .passedOn, .dead, .suspect, .retry, .rejected, .misconfigured: false
      }
    }

    /// The answer to a request that precedes the notification itself: if its connection broke, the notification was not
    /// sent, so there is no doubt about it.
    var withoutDoubt: Answer {
      guard case .retry(let reason, let notBefore, .connection) = outcome else { return self }
      return Answer(.retry(reason, notBefore: notBefore, scope: .route), source, response)
    }
  }

  /// A push that cannot be sent, with its outcome.
  struct Unsendable: Error {
    let outcome: Outcome
  }

  /// Puts the token and the push into a request, and makes it once more if that may help.
  ///
  /// - Parameter target: the topic or project of the route.
  func request(
    _ push: Push, to target: String, of owner: Owner, deadline: NIODeadline
  ) async -> Awaited<Answer> {
    guard !neverResolves else { return .ended(Answer(.dead(.nameReserved, since: nil), .ourselves)) }
    guard case .tokens(let tokens) = authority else {
      return await sendAsOwner(push, of: owner, deadline: deadline)
    }
    var isSecondTry = false
    while true {
      let authorization: String
      let token =
        if let present = tokens.present() { present } else { await tokens.token(deadline: deadline) }
      switch token {
      case .success(let token): authorization = token.authorization
      case .failure(let failure): return .ended(Answer(Outcome(failure), .transport))
      }
      let request: ProviderRequest
      switch self.request(for: push, to: target, authorization, of: owner) {
      case .success(let made): request = made
      case .failure(let fault): return .ended(Answer(fault.outcome, .ourselves))
      }
      switch await transport.send(request, deadline: deadline) {
      case .ended(let answer):
        let (answer, again) = read(answer)
        let isWorthAnother = again == .atOnce || again == .withAnotherToken && tokens.refused(authorization)
        guard isWorthAnother, !isSecondTry else { return .ended(answer) }
        isSecondTry = true
      case .underWay(let answer):
        return .underWay { [self] in
          let (answer, again) = read(await answer())
          if again == .withAnotherToken { _ = tokens.refused(authorization) }
          return answer
        }
      }
    }
  }

  // Not inlined, like others here: it would add to the memory of its caller's task (`Documentation/Decisions` 0023).
  @inline(never) private func request(
    for push: Push, to target: String, _ authorization: String, of owner: Owner
  ) -> Result<ProviderRequest, Unsendable> {
    Result { () throws(Unsendable) in
      var request = try push.request(from: self, target: target, authorization)
      request.owner = owner
      return request
    }
  }

  /// What an answer means, and whether to send again at once.
  @inline(never) func read(
    _ answer: Result<ProviderResponse, TransportFailure>
  ) -> (answer: Answer, again: Remedy.Again) {
    let response: ProviderResponse
    switch answer {
    case .failure(let failure): return (Answer(Outcome(failure), .transport), .no)
    case .success(let answer): response = answer
    }
    let outcome = Outcome(response, from: provider, now: now)
    let remedy = provider.definition.remedy(after: outcome)
    if let connection = response.connection {
      switch remedy.retired {
      case .none: break
      case .this: transport.retire(connection)
      case .untilNow: transport.renew(through: connection)
      case .all: transport.renew(through: nil)
      }
    }
    return (Answer(outcome, .provider), remedy.again)
  }
}

/// The scheme, host and port of an `http` or `https` URL, and the beginning of its path.
struct Origin: Sendable, Hashable {
  let scheme: String
  let host: String
  let port: Int
  /// A path without a final slash, put before the paths that the program uses.
  let basePath: String
  /// The `:authority` of requests: the host, with the port unless it is the scheme's default.
  let authority: String

  init(scheme: String = "https", host: String, port: Int = 443, basePath: String = "") {
    self.scheme = scheme
    self.host = host
    self.port = port
    self.basePath = basePath
    let name = host.contains(":") ? "[\(host)]" : host
    authority = port == (scheme == "http" ? 80 : 443) ? name : "\(name):\(port)"
  }

  init?(_ url: URL) {
    guard let scheme = url.scheme, scheme == "http" || scheme == "https",
      let host = url.host(percentEncoded: false), !host.isEmpty
    else { return nil }
    let path = url.path(percentEncoded: true)
    self.init(
      scheme: scheme, host: host, port: url.port ?? (scheme == "http" ? 80 : 443),
      basePath: path.hasSuffix("/") ? String(path.dropLast()) : path)
  }
}
