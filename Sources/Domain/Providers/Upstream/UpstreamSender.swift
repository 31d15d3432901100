package import Foundation
package import HTTPClient
import NIOCore
import NIOHPACK
import Synchronization

/// What an owner of pushes signs in with.
package struct SignIn: Sendable, Hashable {
  /// The value of `Authorization`.
  let authorization: String
  /// Since when it is used: what was refused before says nothing of it.
  let since: Date

  package init(_ authorization: String, since: Date) {
    self.authorization = authorization
    self.since = since
  }
}

extension PushProviders.Configuration {
  /// The upstream bouncer.
  package struct Upstream: Sendable {
    package var url: URL
    /// What a chat server signs in with there; nil if that is not known.
    package var signIn: @Sendable (Owner) async -> SignIn?

    package init(url: URL, signIn: @escaping @Sendable (Owner) async -> SignIn?) {
      self.url = url
      self.signIn = signIn
    }
  }
}

extension SenderFactory {
  func upstream(_ upstream: PushProviders.Configuration.Upstream) throws -> RouteSender {
    guard let origin = Origin(upstream.url) else {
      throw PushProviders.ConfigurationError(key: "upstream.url", advice: "must be an http or https URL")
    }
    let sender = Sender(
      provider: .upstream, origin: origin,
      transport: network.transport(to: ProviderPeer(provider: .upstream, origin: origin, mayLackHTTP2: true)),
      authority: .owners(upstream.signIn), now: now)
    metrics.prepare(.upstream)
    return RouteSender(
      Route(provider: .upstream, credential: origin.authority, target: ""), sender, metrics)
  }
}

extension RouteSender {
  /// Makes a call to the upstream bouncer for a chat server. It counts for the route as a push does; the server's calls and
  /// pushes do not make each other wait. It goes even if the route answers too slowly for most callers: nothing is kept
  /// for later in its place, whose answer would show that the route is fast again.
  ///
  /// - Throws: the outcome of a call without an answer; nothing is known then of what has become of it.
  package func call(
    _ call: UpstreamCall, of owner: Owner, within limit: Duration
  ) async throws(NoAnswer) -> UpstreamAnswer {
    let account = await account(of: owner)
    let recipient = Recipient(owner: account, token: ~account.hashValue, isCall: true)
    switch await sendIfAllowed(
      recipient, .now + limit, isPatient: true,
      { await sender.call(call, of: owner, deadline: $0) })
    {
    case .ended(let answer):
      guard let response = answer.response else { throw NoAnswer(outcome: answer.outcome) }
      let now = sender.now()
      let pause = RetryAfter.date(response.headers.first(name: "retry-after"), now: now)
      return UpstreamAnswer(
        status: response.status, failure: answer.outcome.reason,
        retryAfter: pause.map { max(1, Int($0.timeIntervalSince(now).rounded(.up))) }, body: response.body)
    case .underWay(let answer):
      Task { _ = await answer() }
      throw NoAnswer(outcome: Outcome(TransportFailure.timeout))
    }
  }

  package struct NoAnswer: Error, Sendable {
    package let outcome: Outcome
  }
}

/// Sending to the upstream bouncer.
extension Sender {
  /// Registrations that the upstream bouncer has taken too late for the notification that they came with.
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

  /// Registers what the upstream bouncer may not know yet, then sends the notifications.
  func sendAsOwner(_ push: Push, of owner: Owner, deadline: NIODeadline) async -> Awaited<Answer> {
    guard case .upstream(let push) = push else { return .ended(Answer(.rejected(.unknown), .ourselves)) }
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

  /// What an owner signs in with at the upstream bouncer.
  func signIn(of owner: Owner) async -> SignIn? {
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
