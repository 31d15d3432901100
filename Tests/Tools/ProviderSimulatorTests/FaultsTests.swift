import Foundation
import NIOHTTP1
import NIOHTTP2
import ProviderSimulator
import TestSupport
import Testing

@Suite(.client) struct FaultsTests {
  private let client = Fixture<Client>.current

  @Test func `keeps the promise of a GOAWAY: every stream it covers is answered`() async throws {
    await client.setFaults {
      $0.apns.goAwayEvery = 3
      $0.apns.latencyMilliseconds = 50
    }
    let frames = try await FrameClient(client.simulator)
    frames.push(stream: 1, authorization: client.bearer)
    #expect(await frames.nextStatus()?.status == "200")
    for stream in [3, 5] { frames.push(stream: stream, authorization: client.bearer) }
    try await client.simulator.waitForDeliveries(count: 3)
    #expect(try #require(await frames.nextGoAway()) == 5)
    #expect(try #require(await frames.nextStatus()) == (3, "200"))
    #expect(try #require(await frames.nextStatus()) == (5, "200"))
    // Then the simulator closes.
    #expect(await frames.nextStatus() == nil)
    #expect(client.simulator.counts.apns == 3)
    await frames.close()
  }

  @Test func `resets, drops and loses answers at the requests it was told`() async throws {
    func outcomes(_ change: (inout ProviderFaults) -> Void) async throws -> [Bool] {
      client.simulator.reset()
      await client.setFaults { change(&$0.apns) }
      var answered: [Bool] = []
      for _ in 0..<4 {
        // Each request has its own connection, so that the test does not depend on how soon a client
        // notices a closed one.
        guard let frames = try? await FrameClient(client.simulator) else {
          answered.append(false)
          continue
        }
        frames.push(stream: 1, authorization: client.bearer)
        answered.append(await frames.nextAnswer() == "200")
        await frames.close()
      }
      return answered
    }
    #expect(try await outcomes { $0.resetEvery = 2 } == [true, false, true, false])
    #expect(client.simulator.counts.apns == 2)
    #expect(try await outcomes { $0.dropEvery = 2 } == [true, false, true, false])
    #expect(client.simulator.counts.apns == 2)
    #expect(try await outcomes { $0.loseAnswerEvery = 2 } == [true, false, true, false])
    #expect(client.simulator.counts.apns == 4)
    #expect(try await outcomes { $0.outage = true } == [false, false, false, false])
    #expect(client.simulator.counts.apns == 0)
    #expect(try await outcomes { _ in } == [true, true, true, true])
  }

  @Test func `says which error a RST_STREAM has`() async throws {
    await client.setFaults {
      $0.apns.resetEvery = 1
      $0.apns.resetCode = .internalError
    }
    let frames = try await FrameClient(client.simulator)
    frames.push(stream: 1, authorization: "bearer \(try client.providerToken())")
    let code = await frames.next { frame -> HTTP2ErrorCode? in
      guard case .rstStream(let code) = frame.payload else { return nil }
      return code
    }
    #expect(code == .internalError)
    await frames.close()
  }

  @Test func `answers with the error it was told, with Retry-After and as HTML`() async throws {
    let date = "Fri, 31 Dec 2027 23:59:59 GMT"
    await client.setFaults {
      $0.apns.status = 429
      $0.apns.every = 2
      $0.apns.retryAfter = date
      $0.fcm.status = 503
      $0.fcm.retryAfter = "7"
      $0.fcm.html = true
    }
    #expect(try await client.push().status == 200)
    let refused = try await client.push()
    #expect(refused.status == 429)
    #expect(refused.reason == "TooManyRequests")
    #expect(refused.headers["retry-after"] == [date])
    let fcm = try await client.message(#"{"message":{"token":"t"}}"#, bearer: client.accessToken())
    #expect(fcm.status == 503)
    #expect(fcm.headers["retry-after"] == ["7"])
    #expect(fcm.body.hasPrefix("<!DOCTYPE html>"))
  }

  @Test func `delays answers and OAuth answers, and refuses OAuth`() async throws {
    await client.setFaults {
      $0.apns.latencyMilliseconds = 150
      $0.oauthLatencyMilliseconds = 150
    }
    let clock = ContinuousClock()
    let push = try await clock.measure { _ = try await client.push() }
    #expect(push >= .milliseconds(150))
    let token = try await clock.measure { _ = try await client.accessToken() }
    #expect(token >= .milliseconds(150))
    await client.setFaults { $0.oauthStatus = 500 }
    let refused = try await client.oauth(client.assertion())
    #expect(refused.status == 500)
  }

  @Test func `never answers, and goes silent on a whole connection, while the control calls go on`()
    async throws
  {
    await client.setFaults { $0.apns.freezeEvery = 2 }
    let frames = try await FrameClient(client.simulator)
    frames.push(stream: 1, authorization: client.bearer)
    #expect(await frames.nextStatus()?.status == "200")
    frames.push(stream: 3, authorization: client.bearer)
    // Nothing comes until the simulator is told to let go.
    async let ended: Bool = frames.nextStatus() == nil
    #expect(try await client.control(.GET, "/counts").status == 200)
    await client.simulator.dropAPNsConnections()
    #expect(await ended)
    #expect(client.simulator.counts.apns == 1)
  }
}
