import NIOCore

/// Sends requests that a token authorizes, each once more where that may mend a refusal.
struct AuthorizedTransport: Sendable {
  let transport: any Transport
  /// Shared by all senders with the same key.
  let tokens: TokenSource

  /// - Parameters:
  ///   - owner: who answers for the request.
  ///   - request: makes the request with such an `authorization` header.
  ///   - meaning: what an answer means.
  func send(
    of owner: Owner, deadline: NIODeadline,
    request: (_ authorization: String) -> Result<ProviderRequest, Unsendable>,
    meaning: @escaping @Sendable (ProviderResponse) -> (outcome: Outcome, remedy: Remedy)
  ) async -> Attempt<RouteAnswer> {
    var isSecondTry = false
    while true {
      let authorization: String
      switch await tokens.token(deadline: deadline) {
      case .success(let token): authorization = token.authorization
      case .failure(let failure): return .ended(.missing(Outcome(failure)))
      }
      var made: ProviderRequest
      switch request(authorization) {
      case .success(let request): made = request
      case .failure(let unsendable): return .ended(.notAsked(unsendable.outcome))
      }
      made.owner = owner
      switch await transport.send(made, deadline: deadline) {
      case .ended(let ending):
        let (answer, isWorthAnother) = judge(ending, authorization, meaning)
        guard isWorthAnother, !isSecondTry else { return .ended(answer) }
        isSecondTry = true
      case .underWay(let ending):
        return .underWay { judge(await ending(), authorization, meaning).answer }
      }
    }
  }

  /// What the ending means, and whether it is worth another try at once.
  private func judge(
    _ ending: PendingRequest.Ending, _ authorization: String,
    _ meaning: (ProviderResponse) -> (outcome: Outcome, remedy: Remedy)
  ) -> (answer: RouteAnswer, isWorthAnother: Bool) {
    switch ending {
    case .failure(let failure):
      return (.missing(Outcome(failure)), false)
    case .success(let response):
      let (outcome, remedy) = meaning(response)
      if let connection = response.connection {
        switch remedy.retired {
        case .none: break
        case .this: transport.retire(connection)
        case .untilNow: transport.renew(through: connection)
        case .all: transport.renew(through: nil)
        }
      }
      switch remedy.again {
      case .no: return (.given(outcome), false)
      case .atOnce: return (.given(outcome), true)
      case .withAnotherToken: return (.given(outcome), tokens.refused(authorization))
      }
    }
  }
}

/// The push cannot be sent at all.
struct Unsendable: Error {
  let outcome: Outcome
}

/// An outcome, and whether it is the provider's own word.
enum RouteAnswer: Sendable, Hashable {
  case given(Outcome)
  /// None came, or none that the provider gave to the push.
  case missing(Outcome)
  /// The push cannot be sent: nothing is learned about the route.
  case notAsked(Outcome)

  var outcome: Outcome {
    switch self {
    case .given(let outcome), .missing(let outcome), .notAsked(let outcome): outcome
    }
  }
}
