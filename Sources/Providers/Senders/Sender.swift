import Foundation
import NIOCore

/// Sends the pushes of one credential, or to one push service. Adds a token to each request, and sends it
/// once more if another token or connection may help.
struct Sender: Sendable {
  let provider: Route.Provider
  let origin: Origin
  /// The URL's path and Google's token host. Used by FCM only.
  var path = ""
  var tokenHost = ""
  let transport: any Transport
  /// Shared by all senders with the same key.
  let tokens: TokenSource
  let now: @Sendable () -> Date

  struct Unsendable: Error {
    let outcome: Outcome
  }

  /// - Parameter target: the topic or project of the route.
  func send(
    _ push: Push, to target: String, of owner: Owner, deadline: NIODeadline
  ) async -> Awaited<(Outcome, from: Outcome.Source)> {
    var isSecondTry = false
    while true {
      let authorization: String
      switch await tokens.token(deadline: deadline) {
      case .success(let token): authorization = token.authorization
      case .failure(let failure): return .ended((Outcome(failure), from: .transport))
      }
      var request: ProviderRequest
      do throws(Unsendable) {
        request = try self.request(push, to: target, authorization)
      } catch {
        return .ended((error.outcome, from: .ourselves))
      }
      request.owner = owner
      switch await transport.send(request, deadline: deadline) {
      case .ended(let answer):
        let (outcome, source, isWorthAnother) = read(answer, authorization)
        guard isWorthAnother, !isSecondTry else { return .ended((outcome, from: source)) }
        isSecondTry = true
      case .underWay(let answer):
        return .underWay {
          let (outcome, source, _) = read(await answer(), authorization)
          return (outcome, from: source)
        }
      }
    }
  }

  private func request(
    _ push: Push, to target: String, _ authorization: String
  ) throws(Unsendable) -> ProviderRequest {
    switch push {
    case .apns(let notification): try .apns(notification, topic: target, to: origin, authorization)
    case .fcm(let message): .fcm(message, to: origin, path: path, authorization)
    case .webPush(let message): try .webPush(message, to: origin, authorization)
    }
  }

  /// The outcome of an answer, and whether to send again at once.
  private func read(
    _ answer: Result<ProviderResponse, TransportFailure>, _ authorization: String
  ) -> (outcome: Outcome, from: Outcome.Source, isWorthAnother: Bool) {
    let response: ProviderResponse
    switch answer {
    case .failure(let failure): return (Outcome(failure), .transport, false)
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
    }
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

struct Origin: Sendable, Hashable {
  let scheme: String
  let host: String
  let port: Int
  /// A path without a final slash, put before the paths that the program uses.
  let basePath: String
  /// The `:authority` of requests: the host, with the port unless it is the scheme's default.
  let authority: String

  init(scheme: String = "https", host: String, port: Int = 443, basePath: String = "") {
    (self.scheme, self.host, self.port, self.basePath) = (scheme, host, port, basePath)
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
