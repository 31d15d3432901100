package import Foundation
package import NIOCore

/// What carries requests to the providers: the internet, or, where the providers are played in this process, whoever
/// plays them.
package protocol ProviderNetwork: Sendable {
  /// How long an answer is waited for after whoever waited for it has gone on without.
  var answerPatience: Duration { get }
  /// Where timers run.
  var eventLoop: any EventLoop { get }
  /// The connections of one sender to its provider.
  func transport(to peer: ProviderPeer) -> any Transport
  /// Asks Google for an access token; ends by itself, in seconds.
  func accessToken(
    for credential: FCMCredential, now: @escaping @Sendable () -> Date
  ) async -> Result<AccessToken, TokenFailure>
  /// Ends what it holds, after the transports have been shut down.
  func shutdown() async
}

/// Whom a transport leads to.
package struct ProviderPeer: Sendable {
  /// What a push service is told apart by, and what its connections share with those of others.
  struct WebPush {
    let addresses: WebPushAddresses
    let shares: WebPushShares
    let standing: WebPushShares.Standing
  }

  /// Whose it is.
  package let provider: Route.Provider
  /// Its host.
  package let host: String
  /// Its port.
  package let port: Int
  /// The simulator's FCM, spoken to without TLS.
  var isInClear = false
  var webPush: WebPush?

  init(_ provider: Route.Provider, host: String, port: Int) {
    (self.provider, self.host, self.port) = (provider, host, port)
  }

  /// As requests name it.
  var authority: String { FCMOrigin(scheme: "https", host: host, port: port).authority }
}
