import Foundation
import NIOCore
import NIOEmbedded
import NIOHPACK
import Providers

/// A node's network to Apple and Google.
struct NodeNetwork: ProviderNetwork {
  unowned let world: World
  let life: Life

  var answerTimeout: Duration { Node.answerTimeout }
  var eventLoop: any EventLoop { world.eventLoop }

  func transport(to peer: ProviderPeer) -> any Transport {
    NodeTransport(provider: peer.provider, world: world, life: life)
  }

  func accessToken(
    for credential: FCMCredential, now: @escaping @Sendable () -> Date
  ) async -> Result<AccessToken, TokenFailure> {
    guard let provider = world.providers[.fcm] else { return .failure(.unreachable) }
    await provider.wayThere()
    guard life.isAlive, !provider.isUnreachable else { return .failure(.unreachable) }
    let now = now()
    return .success(
      AccessToken(
        authorization: "Bearer \(life.number)", issuedAt: now, renewAt: now + 3300, expiresAt: now + 3600))
  }
}

/// Carries requests to a provider that the world plays.
final class NodeTransport: Transport {
  private let provider: Route.Provider
  private unowned let world: World
  private let life: Life

  init(provider: Route.Provider, world: World, life: Life) {
    (self.provider, self.world, self.life) = (provider, world, life)
  }

  func send(_ request: ProviderRequest, deadline: NIODeadline) async -> Awaited<
    Result<ProviderResponse, TransportFailure>
  > {
    guard let provider = world.providers[provider], life.isAlive else {
      return .ended(.failure(.connectFailed))
    }
    let way = await provider.take(request, from: life)
    let (world, life) = (world, life)
    let began = NIODeadline.now()
    let wait = Duration.seconds(way.latency)
    let left = world.standIn.hasNoDeadline ? wait : Duration.nanoseconds((deadline - began).nanoseconds)
    if wait <= left {
      try? await Task.sleep(for: wait)
      return .ended(world.standIn.answer(way.answer(life), world))
    }
    try? await Task.sleep(for: left)
    guard way.isSent else { return .ended(.failure(.timeout)) }
    return .underWay {
      let rest = wait - left
      guard rest <= Node.answerTimeout else {
        try? await Task.sleep(for: Node.answerTimeout)
        return .failure(.unanswered)
      }
      try? await Task.sleep(for: rest)
      return world.standIn.answer(way.answer(life), world)
    }
  }

  func retire(_ connection: ConnectionID) {}
  func renew(through newest: ConnectionID?) {}
  func shutdown(deadline: NIODeadline?) async {}
}
