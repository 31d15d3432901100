package import Basics
package import Foundation
import HTTPClient
import NIOCore
import NIOHPACK
import Synchronization

/// The credentials with which an owner of pushes signs in.
package struct SignIn: Sendable, Hashable {
  /// The value of `Authorization`.
  let authorization: String
  /// When these credentials came into use: earlier refusals say nothing about them.
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
    /// The credentials of a chat server there; nil if they are not known.
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
  /// Makes a call to the upstream bouncer for a chat server. It counts for the route's health as a push does, but the
  /// server's calls and pushes do not make each other wait. It goes even over a route that answers too slowly for pushes,
  /// because a call is not queued: without it no answer would show that the route is fast again.
  ///
  /// - Throws: ``NoAnswer`` if no answer came: whether the upstream bouncer has acted on the call is then unknown.
  package func call(
    _ call: UpstreamCall, of owner: Owner, within limit: Duration
  ) async throws(NoAnswer) -> UpstreamAnswer {
    let account = await account(of: owner)
    let recipient = Recipient(owner: account, token: ~account.hashValue, isCall: true)
    switch await sendIfAllowed(
      recipient, .now() + TimeAmount(limit), isPatient: true,
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

/// Requests to the upstream bouncer.
extension Sender {
  /// Registrations that the upstream bouncer accepted only after their notification's deadline.
  final class Introduced: Sendable {
    private static let capacity = 10_000
    private let ids = Mutex<Set<Int64>>([])

    func insert(_ registration: Int64) {
      ids.withLock { ids in
        if ids.count >= Self.capacity { ids = [] }
        ids.insert(registration)
      }
    }

    /// Removes a registration; returns whether it was one of them.
    func remove(_ registration: Int64) -> Bool { ids.withLock { $0.remove(registration) != nil } }
  }

  /// Registers what the upstream bouncer may not know yet, then sends the notifications.
  // Not inlined: it would add to the memory of each push's task (`Documentation/Decisions` 0023).
  @inline(never)
  func sendAsOwner(_ push: Push, of owner: Owner, deadline: NIODeadline) async -> Awaited<Answer> {
    guard case .upstream(let push) = push else { return .ended(Answer(.rejected(.unknown), .ourselves)) }
    for (registration, introduction) in push.introductions {
      if introduced.remove(registration) { continue }
      switch await call(introduction, of: owner, deadline: deadline) {
      case .ended(let answer):
        // A refused token counts as answered too, so that it does not hold back the user's other tokens.
        guard answer.outcome.isTaken else { return .ended(answer.withoutDoubt) }
      case .underWay(let answer):
        return .underWay { [introduced] in
          let answer = await answer()
          guard answer.outcome.isTaken else { return answer.withoutDoubt }
          // The notification itself was not sent. The next attempt skips this registration.
          introduced.insert(registration)
          return Answer(.retry(.timeout, notBefore: nil, scope: .caller), .provider)
        }
      }
    }
    return await exchange(push.request, of: owner, deadline: deadline) { [self] in read($0).answer }
  }

  /// Makes a call that is not for a notification.
  func call(_ call: UpstreamCall, of owner: Owner, deadline: NIODeadline) async -> Awaited<Answer> {
    await exchange(call, of: owner, deadline: deadline) { [now] answer in
      switch answer {
      case .failure(let failure): Answer(Outcome(failure), .transport)
      case .success(let response):
        Answer(Outcome(upstreamCall: response, now: now), .provider, response)
      }
    }
  }

  /// The owner's credentials at the upstream bouncer; nil if they are not known.
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

  /// The seconds until a missing key is looked for again.
  private static let keyPause: TimeInterval = 10
}
