import Foundation
import HTTPClient
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
    guard let provider = world.providers[.fcm] else {
      return .failure(.unavailable(ConnectionFailure.connectFailed.signInReason))
    }
    await provider.wayThere()
    guard life.isAlive, !provider.isUnreachable else {
      return .failure(.unavailable(ConnectionFailure.connectFailed.signInReason))
    }
    let now = now()
    return .success(
      AccessToken(
        authorization: "Bearer \(life.number) \(credential.privateKeyID)", issuedAt: now, renewAt: now + 3300,
        expiresAt: now + 3600))
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
    let (world, life, kind) = (world, life, provider)
    guard life.isAlive else { return .ended(.failure(.unconnected(.connectFailed))) }
    let question = Question(request, to: kind, from: life, world.pushService)
    world.asks(question)
    let way: Provider.Way
    if kind == .upstream, let upstream = world.upstream {
      way = upstream.take(request, from: life)
    } else if let provider = world.providers[kind] {
      way = await provider.take(request, from: life)
    } else {
      return .ended(.failure(.unconnected(.connectFailed)))
    }
    let read: @Sendable () -> Result<ProviderResponse, TransportFailure> = {
      let answer = way.answer(life)
      world.hears(answer, to: question)
      return kind == .upstream
        ? world.standIn.upstreamAnswer(answer, world) : world.standIn.answer(answer, world)
    }
    let began = NIODeadline.now()
    let wait = Duration.seconds(way.latency)
    let left = world.standIn.hasNoDeadline ? wait : Duration.nanoseconds((deadline - began).nanoseconds)
    if wait <= left {
      try? await Task.sleep(for: wait)
      return .ended(read())
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
      return read()
    }
  }

  func retire(_ connection: ConnectionID) {}
  func renew(through newest: ConnectionID?) {}
  func close() {}
  func shutdown(deadline: NIODeadline?) async {}
}
