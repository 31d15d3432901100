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
  ) async -> Awaited<(Outcome, from: Outcome.Source)> {
    var isSecondTry = false
    while true {
      let authorization: String
      switch await tokens.token(deadline: deadline) {
      case .success(let token): authorization = token.authorization
      case .failure(let failure): return .ended((Outcome(failure), from: .transport))
      }
      var made: ProviderRequest
      switch request(authorization) {
      case .success(let request): made = request
      case .failure(let unsendable): return .ended((unsendable.outcome, from: .ourselves))
      }
      made.owner = owner
      switch await transport.send(made, deadline: deadline) {
      case .ended(let ending):
        let (outcome, source, isWorthAnother) = read(ending, authorization, meaning)
        guard isWorthAnother, !isSecondTry else { return .ended((outcome, from: source)) }
        isSecondTry = true
      case .underWay(let ending):
        return .underWay {
          let (outcome, source, _) = read(await ending(), authorization, meaning)
          return (outcome, from: source)
        }
      }
    }
  }

  /// What the answer means, and whether it is worth another try at once.
  private func read(
    _ answer: Result<ProviderResponse, TransportFailure>, _ authorization: String,
    _ meaning: (ProviderResponse) -> (outcome: Outcome, remedy: Remedy)
  ) -> (outcome: Outcome, from: Outcome.Source, isWorthAnother: Bool) {
    switch answer {
    case .failure(let failure):
      return (Outcome(failure), .transport, false)
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
      case .no: return (outcome, .provider, false)
      case .atOnce: return (outcome, .provider, true)
      case .withAnotherToken: return (outcome, .provider, tokens.refused(authorization))
      }
    }
  }
}

/// The push cannot be sent at all.
struct Unsendable: Error {
  let outcome: Outcome
}
