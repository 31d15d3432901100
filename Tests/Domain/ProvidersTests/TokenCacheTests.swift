import Foundation
import HTTPClient
import NIOCore
import NIOPosix
import TestServers
import TestSupport
import Testing

@testable import Providers

@Suite("Keeping tokens")
struct TokenCacheTests {
  static let start = Date(timeIntervalSince1970: 1_800_000_000)

  static func token(_ name: String, at date: Date = start) -> AccessToken {
    AccessToken(authorization: name, issuedAt: date, renewAt: date + 2700, expiresAt: date + 3420)
  }

  /// A cache with token "a", made at the start.
  static func filled(_ limits: TokenCache.Limits = .init(minimumAge: 1200)) -> TokenCache {
    var cache = TokenCache(limits: limits)
    _ = cache.token(now: start)
    cache.renewed(.success(token("a")), now: start)
    return cache
  }

  @Test func `The first starts the making, the others wait for it`() {
    var cache = TokenCache()
    #expect(cache.token(now: Self.start) == .wait(start: true))
    #expect(cache.token(now: Self.start) == .wait(start: false))
    cache.renewed(.success(Self.token("a")), now: Self.start)
    #expect(cache.token(now: Self.start) == .use(Self.token("a")))
  }

  @Test func `It is renewed once when it is due, and serves meanwhile`() {
    var cache = Self.filled()
    #expect(cache.token(now: Self.start + 2699) == .use(Self.token("a")))
    #expect(cache.token(now: Self.start + 2700) == .useAndRenew(Self.token("a")))
    #expect(cache.token(now: Self.start + 2700) == .use(Self.token("a")))
    cache.renewed(.success(Self.token("b", at: Self.start + 2700)), now: Self.start + 2700)
    #expect(cache.token(now: Self.start + 2701) == .use(Self.token("b", at: Self.start + 2700)))
  }

  @Test func `A failed renewal is tried again later and later, until the old one is over`() {
    var cache = Self.filled()
    _ = cache.token(now: Self.start + 2700)
    cache.renewed(
      .failure(.unavailable(ConnectionFailure.connectTimeout.signInReason)), now: Self.start + 2700)
    #expect(cache.token(now: Self.start + 2700) == .use(Self.token("a")))
    #expect(cache.token(now: Self.start + 2701) == .useAndRenew(Self.token("a")))
    cache.renewed(.failure(.refused(.invalidGrant)), now: Self.start + 2701)
    #expect(cache.token(now: Self.start + 2702) == .use(Self.token("a")))
    #expect(cache.token(now: Self.start + 2703) == .useAndRenew(Self.token("a")))
    cache.renewed(.failure(.refused(.invalidGrant)), now: Self.start + 3419)
    #expect(cache.token(now: Self.start + 3421) == .unavailable(.refused(.invalidGrant)))
    #expect(cache.token(now: Self.start + 3423) == .wait(start: true))
  }

  @Test func `A refused token is replaced once it may be`() {
    var cache = Self.filled()
    #expect(cache.refused("a", now: Self.start + 1199) == false)
    #expect(cache.token(now: Self.start + 1199) == .use(Self.token("a")))
    #expect(cache.refused("a", now: Self.start + 1200) == true)
    #expect(cache.token(now: Self.start + 1200) == .wait(start: true))
    // Others whose requests were refused with the old one just use the new one.
    cache.renewed(.success(Self.token("b", at: Self.start + 1200)), now: Self.start + 1200)
    #expect(cache.refused("a", now: Self.start + 1201) == true)
    #expect(cache.token(now: Self.start + 1201) == .use(Self.token("b", at: Self.start + 1200)))
  }

  @Test func `A token from before the clock was set back is replaced`() {
    var cache = Self.filled()
    #expect(cache.token(now: Self.start - 30) == .use(Self.token("a")))
    #expect(cache.token(now: Self.start - 3600) == .wait(start: true))
  }

  @Test func `A clock set back does not hold up the next attempt for hours`() {
    var cache = TokenCache()
    _ = cache.token(now: Self.start)
    cache.renewed(.failure(.unavailable(ConnectionFailure.connectTimeout.signInReason)), now: Self.start)
    #expect(
      cache.token(now: Self.start)
        == .unavailable(.unavailable(ConnectionFailure.connectTimeout.signInReason)))
    #expect(cache.token(now: Self.start - 86_400) == .wait(start: true))
  }

  @Test func `A thousand at once make one token`() async {
    let made = Counter()
    let source = TokenSource(eventLoop: MultiThreadedEventLoopGroup.singleton.any(), now: { Self.start }) {
      try? await Task.sleep(for: .milliseconds(20))
      return .success(Self.token("made \(made.increment())"))
    }
    await withTaskGroup { group in
      for _ in 0..<1000 {
        group.addTask {
          #expect(await source.token(deadline: .longest) == .success(Self.token("made 1")))
        }
      }
    }
    #expect(made.value == 1)
  }
}
