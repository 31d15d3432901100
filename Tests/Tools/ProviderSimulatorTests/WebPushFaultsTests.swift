import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import ProviderSimulator
import TestSupport
import Testing

@Suite(.client) struct WebPushFaultsTests {
  private let client = Fixture<Client>.current

  private let server = ApplicationServer()

  @Test func `answers with the error or the redirect it was told`() async throws {
    let endpoint = try await client.subscribe(server)
    await client.setFaults {
      $0.webPush.status = 429
      $0.webPush.every = 2
      $0.webPush.retryAfter = "7"
    }
    #expect(try await client.send(to: endpoint, from: server).status == 201)
    let refused = try await client.send(to: endpoint, from: server)
    #expect(refused.status == 429 && refused.reason == "TooManyRequests")
    #expect(refused.headers["retry-after"] == ["7"])

    let set = try await client.control(
      .PUT, "/faults", #"{"webpush":{"status":307,"location":"http://10.0.0.1/inside"}}"#)
    let shown = set.json["webpush"] as? [String: Any]
    #expect(shown?["status"] as? Int == 307 && shown?["location"] as? String == "http://10.0.0.1/inside")
    let redirect = try await client.send(to: endpoint, from: server)
    #expect(redirect.status == 307 && redirect.headers["location"] == ["http://10.0.0.1/inside"])
    for body in [
      #"{"webpush":{"location":"https://example.org"}}"#,
      #"{"webpush":{"status":307,"location":"a\r\nb:c"}}"#,
    ] {
      let answer = try await client.control(.PUT, "/faults", body)
      #expect(answer.status == 400 && answer.body.contains("webpush."), "\(answer.body)")
    }
  }

  @Test(arguments: [HTTPClient.Configuration.HTTPVersion.automatic, .http1Only], [nil, 503])
  func `answers without an end`(version: HTTPClient.Configuration.HTTPVersion, status: Int?) async throws {
    try await Client.with(speaking: version) { client in
      let endpoint = try await client.subscribe(server)
      await client.setFaults {
        $0.webPush.endless = true
        $0.webPush.status = status
      }
      let response = try await client.response(
        .POST, endpoint, client.fields(to: endpoint, from: server), bytes: ApplicationServer.body())
      #expect(Int(response.status.code) == status ?? 201)
      var read = 0
      for try await part in response.body {
        read += part.readableBytes
        if read > 32 << 20 { break }
      }
      #expect(read > 32 << 20)
      // The phones' side and the control calls go on.
      #expect(try await client.control(.PUT, "/faults", "{}").status == 200)
      #expect(try await client.send(to: endpoint, from: server).status == 201)
    }
  }

  @Test(arguments: [HTTPClient.Configuration.HTTPVersion.automatic, .http1Only])
  func `drops, loses answers and keeps silent while phones are served`(
    version: HTTPClient.Configuration.HTTPVersion
  ) async throws {
    try await Client.with(speaking: version) { client in
      let endpoint = try await client.subscribe(server)
      func isAnswered(_ change: (inout ProviderFaults) -> Void) async throws -> Bool {
        await client.setFaults { change(&$0.webPush) }
        // Each request has its own client, so that the test does not depend on how soon a client notices a
        // closed connection.
        var isAnswered = false
        try await Client.with(client.simulator, speaking: version) {
          isAnswered = (try? await $0.send(to: endpoint, from: server).status) == 201
        }
        return isAnswered
      }
      #expect(try await !isAnswered { $0.outage = true })
      #expect(try await client.subscribe(server).contains("/push/"))
      #expect(try await !isAnswered { $0.dropEvery = 1 })
      #expect(try await client.messages(at: endpoint).messages.isEmpty)
      #expect(try await !isAnswered { $0.loseAnswerEvery = 1 })
      #expect(try await client.messages(at: endpoint).messages.count == 1)
      #expect(try await isAnswered { $0.goAwayEvery = 1 })
      #expect(try await isAnswered { _ in })

      await client.setFaults { $0.webPush.neverAnswerEvery = 1 }
      let silent = Task { try? await client.send(to: endpoint, from: server).status }
      #expect(try await client.messages(at: endpoint).messages.count == 3)
      silent.cancel()
      #expect(await silent.value == nil)
    }
  }

  @Test func `rules are for one subscription`() async throws {
    let endpoint = try await client.subscribe(server)
    let other = try await client.subscribe(server)
    let path = "/tokens/\(endpoint.subscriptionID)"
    for (rule, status, reason) in [
      (#"{"status":410}"#, 410, "Gone"), (#"{"status":404}"#, 404, "NotFound"),
      (#"{"status":403,"reason":"VapidPkHashMismatch"}"#, 403, "VapidPkHashMismatch"),
      (#"{"status":429,"retry_after":3600}"#, 429, "TooManyRequests"),
      (#"{"status":202}"#, 202, nil),
      (#"{"status":200,"delay_ms":1}"#, 201, nil),
    ] {
      #expect(try await client.control(.PUT, path, rule).status == 200)
      let answer = try await client.send(to: endpoint, from: server)
      #expect(answer.status == status && answer.reason == reason)
      #expect(answer.headers["retry-after"] == (status == 429 ? ["3600"] : []))
      #expect(try await client.send(to: other, from: server).status == 201)
    }
    #expect(client.simulator.counts.webPush == 8)
    #expect(client.simulator.counts.refused == 4)
  }

  @Test func `counts without keeping when told so`() async throws {
    let endpoint = try await client.subscribe(server)
    _ = try await client.control(.PUT, "/faults", #"{"record":false}"#)
    #expect(try await client.send(to: endpoint, from: server).status == 201)
    #expect(client.simulator.counts.webPush == 1)
    #expect(try await client.messages(at: endpoint).messages.isEmpty)
    // Subscriptions outlive a reset, as phones do.
    _ = try await client.control(.DELETE, "")
    #expect(try await client.send(to: endpoint, from: server).status == 201)
    #expect(try await client.messages(at: endpoint).messages.count == 1)
  }
}
