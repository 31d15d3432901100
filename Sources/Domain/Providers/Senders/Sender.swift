import Foundation
import HTTPClient
import NIOCore
import Synchronization

/// Sends the pushes of one credential, or to one push service. Adds a token to each request, and sends it
/// once more if another token or connection may help.
struct Sender: Sendable {
  let provider: Route.Provider
  let origin: Origin
  /// The URL's path and Google's token host. Used by FCM only.
  var path = ""
  var tokenHost = ""
  let transport: any Transport
  /// Set for APNs.
  var environment: APNsCredential.Environment?
  let authority: Authority
  /// Used for another bouncer only.
  let introduced = Introduced()
  let now: @Sendable () -> Date

  /// Where the value of `Authorization` comes from.
  enum Authority: Sendable {
    /// Shared by all senders with the same key.
    case tokens(TokenSource)
    /// Each owner's own; nil where it is not known.
    case owners(@Sendable (Owner) async -> PushProviders.Configuration.Upstream.SignIn?)
  }

  /// Registrations that the other bouncer has taken too late for the notification that they came with.
  final class Introduced: Sendable {
    private static let most = 10_000
    private let ids = Mutex<Set<Int64>>([])

    func note(_ registration: Int64) {
      ids.withLock { ids in
        if ids.count >= Self.most { ids = [] }
        ids.insert(registration)
      }
    }

    /// Whether it is one of them; asked once.
    func take(_ registration: Int64) -> Bool { ids.withLock { $0.remove(registration) != nil } }
  }

  /// How a push or a call has ended.
  struct Answer: Sendable {
    let outcome: Outcome
    let source: Outcome.Source
    /// The answer to a call.
    let response: ProviderResponse?
    /// Set by the route, if it is the token that has to wait.
    var pause: TokenPause?

    init(_ outcome: Outcome, _ source: Outcome.Source, _ response: ProviderResponse? = nil) {
      self.outcome = outcome
      self.source = source
      self.response = response
    }

    /// The same for a request without which the notification itself does not go out.
    var withoutDoubt: Answer {
      guard case .retry(let reason, let notBefore, .connection) = outcome else { return self }
      return Answer(.retry(reason, notBefore: notBefore, scope: .route), source, response)
    }
  }

  struct Unsendable: Error {
    let outcome: Outcome
  }

  /// Puts the token and the push into a request, and makes it once more if that may help.
  ///
  /// - Parameter target: the topic or project of the route.
  func request(
    _ push: Push, to target: String, of owner: Owner, deadline: NIODeadline
  ) async -> Awaited<Answer> {
    guard case .tokens(let tokens) = authority else {
      guard case .upstream(let push) = push else { return .ended(Answer(.rejected(.unknown), .ourselves)) }
      return await passUpstream(push, of: owner, deadline: deadline)
    }
    var isSecondTry = false
    while true {
      let authorization: String
      switch await tokens.token(deadline: deadline) {
      case .success(let token): authorization = token.authorization
      case .failure(let failure): return .ended(Answer(Outcome(failure), .transport))
      }
      var request: ProviderRequest
      do throws(Unsendable) {
        request = try providerRequest(push, to: target, authorization)
      } catch {
        return .ended(Answer(error.outcome, .ourselves))
      }
      request.owner = owner
      switch await transport.send(request, deadline: deadline) {
      case .ended(let answer):
        let (answer, again) = read(answer)
        let isWorthAnother = again == .atOnce || again == .withAnotherToken && tokens.refused(authorization)
        guard isWorthAnother, !isSecondTry else { return .ended(answer) }
        isSecondTry = true
      case .underWay(let answer):
        return .underWay {
          let (answer, again) = read(await answer())
          if again == .withAnotherToken { _ = tokens.refused(authorization) }
          return answer
        }
      }
    }
  }

  private func providerRequest(
    _ push: Push, to target: String, _ authorization: String
  ) throws(Unsendable) -> ProviderRequest {
    switch push {
    case .apns(let notification): try .apns(notification, topic: target, to: origin, authorization)
    case .fcm(let message): try .fcm(message, to: origin, path: path, authorization)
    case .webPush(let message): try .webPush(message, to: origin, authorization)
    case .upstream: throw Unsendable(outcome: .rejected(.unknown))
    }
  }

  /// What an answer means, and whether to send again at once.
  private func read(
    _ answer: Result<ProviderResponse, TransportFailure>
  ) -> (answer: Answer, again: Remedy.Again) {
    let response: ProviderResponse
    switch answer {
    case .failure(let failure): return (Answer(Outcome(failure), .transport), .no)
    case .success(let answer): response = answer
    }
    let outcome: Outcome
    let remedy: Remedy
    switch provider {
    case .apns:
      outcome = Outcome(apns: response, now: now)
      remedy = .afterAPNs(outcome)
    case .fcm:
      outcome = Outcome(fcm: response, now: now)
      remedy = .afterFCM(outcome)
    case .webPush:
      outcome = Outcome(webPush: response, now: now)
      remedy = .afterWebPush(outcome)
    case .upstream:
      outcome = Outcome(upstream: response, now: now)
      remedy = Remedy()
    }
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

// MARK: Another bouncer

extension Sender {
  /// Registers what the other bouncer may not know yet, then sends the notifications.
  private func passUpstream(
    _ push: UpstreamPush, of owner: Owner, deadline: NIODeadline
  ) async -> Awaited<Answer> {
    for (registration, introduction) in push.introductions {
      if introduced.take(registration) { continue }
      switch await call(introduction, of: owner, deadline: deadline) {
      case .ended(let answer):
        // A token that is refused counts as an answer, and does not hold back the user's others.
        guard answer.outcome.isTaken else { return .ended(answer.withoutDoubt) }
      case .underWay(let answer):
        return .underWay {
          let answer = await answer()
          guard answer.outcome.isTaken else { return answer.withoutDoubt }
          // The notification itself was not sent. The next try goes on from here.
          introduced.note(registration)
          return Answer(.retry(.timeout, notBefore: nil, scope: .caller), .provider)
        }
      }
    }
    return await exchange(push.request, of: owner, deadline: deadline) { read($0).answer }
  }

  /// Makes another call.
  func call(_ call: UpstreamCall, of owner: Owner, deadline: NIODeadline) async -> Awaited<Answer> {
    await exchange(call, of: owner, deadline: deadline) { answer in
      switch answer {
      case .failure(let failure): Answer(Outcome(failure), .transport)
      case .success(let response):
        Answer(Outcome(upstreamCall: response, now: now), .provider, response)
      }
    }
  }

  /// What an owner signs in with at the other bouncer.
  func signIn(of owner: Owner) async -> PushProviders.Configuration.Upstream.SignIn? {
    guard case .owners(let signIn) = authority else { return nil }
    return await signIn(owner)
  }

  private func exchange(
    _ call: UpstreamCall, of owner: Owner, deadline: NIODeadline,
    _ read: @escaping @Sendable (Result<ProviderResponse, TransportFailure>) -> Answer
  ) async -> Awaited<Answer> {
    guard let signIn = await signIn(of: owner) else {
      let again = now() + Self.keyPause
      return .ended(Answer(.retry(.upstreamKeyMissing, notBefore: again, scope: .token), .ourselves))
    }
    var request = ProviderRequest.upstream(call, to: origin, signIn.authorization)
    request.owner = owner
    switch await transport.send(request, deadline: deadline) {
    case .ended(let answer): return .ended(read(answer))
    case .underWay(let answer): return .underWay { read(await answer()) }
    }
  }

  /// Seconds until another look for a chat server's key.
  private static let keyPause: TimeInterval = 10
}

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
