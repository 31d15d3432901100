import Foundation
import NIOHTTP1
import ProviderSimulator
import TestSupport
import Testing

@Suite(.client) struct ControlTests {
  private let client = Fixture<Client>.current

  @Test func `shows what arrived, in order and whole, page by page`() async throws {
    for number in 1...3 {
      _ = try await client.push(
        payload: #"{"aps":{"badge":\#(number)},"text":"h\u00e4\n"}"#)
    }
    _ = try await client.push(headers: ["apns-topic": "other"])
    _ = try await client.message(
      #"{"message":{"token":"phone:\"1\"","data":{}}}"#, bearer: client.accessToken())

    let all = try await client.control(.GET, "/deliveries?since=0").json
    let deliveries = try #require(all["deliveries"] as? [[String: Any]])
    #expect(deliveries.map { $0["sequence"] as? Int } == [1, 2, 3, 5])
    #expect(deliveries.map { $0["provider"] as? String } == ["apns", "apns", "apns", "fcm"])
    #expect(all["next"] as? Int == 5)
    let first = deliveries[0]
    #expect(first["token"] as? String == Client.token)
    #expect(first["topic"] as? String == "org.example.chat")
    #expect((first["headers"] as? [String: String])?["apns-push-type"] == "alert")
    #expect((first["payload"] as? [String: Any])?["text"] as? String == "hä\n")
    #expect(first["status"] as? Int == 200)
    #expect(first["accepted"] as? Bool == true)
    #expect(first["id"] is String)
    let time = try #require(first["received_at"] as? String)
    let parsed = try Date(
      time,
      strategy: .iso8601.year().month().day().time(includingFractionalSeconds: true).timeZone(
        separator: .omitted))
    #expect(abs(parsed.timeIntervalSinceNow) < 60)
    #expect(deliveries[3]["project"] as? String == client.simulator.projectID)
    #expect(deliveries[3]["token"] as? String == #"phone:"1""#)

    let page = try await client.control(.GET, "/deliveries?since=1&limit=1").json
    #expect((page["deliveries"] as? [[String: Any]])?.map { $0["sequence"] as? Int } == [2])
    #expect(page["next"] as? Int == 2)
    let refused = try await client.control(.GET, "/deliveries?since=3&limit=1&all=true").json
    #expect((refused["deliveries"] as? [[String: Any]])?.first?["accepted"] as? Bool == false)
    let counts = try await client.control(.GET, "/counts").json
    #expect(counts["apns"] as? Int == 3)
    #expect(counts["fcm"] as? Int == 1)
    #expect(counts["refused"] as? Int == 1)
    #expect(counts["jwts"] as? Int == 1)
    #expect(counts["oauth_tokens"] as? Int == 1)
  }

  @Test func `changes what the key may push to, for connections from then on`() async throws {
    let topics = try await client.control(.GET, "/topics").json["topics"] as? [String]
    #expect(topics?.contains("org.example.chat") == true)
    let changed = try await client.control(.PUT, "/topics", #"{"topics":["org.example.added"]}"#)
    #expect(changed.json["topics"] as? [String] == ["org.example.added"])
    #expect(try await client.push(headers: ["apns-topic": "org.example.added"]).status == 200)
    for body in ["{}", #"{"topics":"org.example.added"}"#, #"{"topics":[],"more":1}"#, "["] {
      #expect(try await client.control(.PUT, "/topics", body).status == 400)
    }
  }

  @Test func `shows what is not quite JSON as text, so that the rest can be read`() async throws {
    for payload in ["nothing\n", #"{"aps":{},"x":01}"#, #"{"aps":{},"x":"\q"}"#] {
      _ = try await client.push(payload: payload)
    }
    let all = try await client.control(.GET, "/deliveries?all=true").json
    let deliveries = try #require(all["deliveries"] as? [[String: Any]])
    #expect(deliveries.count == 3)
    #expect(deliveries.first?["payload"] as? String == "nothing\n")
  }

  @Test func `answers a waiting reader as soon as something arrives, and an idle one when its time is up`()
    async throws
  {
    let empty = try await client.control(.GET, "/deliveries?since=0&wait=0.1").json
    #expect((empty["deliveries"] as? [Any])?.isEmpty == true)
    let clock = ContinuousClock()
    let start = clock.now
    async let waiting = client.control(.GET, "/deliveries?since=0&wait=60").json["next"] as? Int
    _ = try await client.push()
    #expect(try await waiting == 1)
    #expect(clock.now - start < .seconds(60))
  }

  @Test func `waits in the same process, and says how many came when time is up`() async throws {
    async let waiting = client.simulator.waitForDeliveries(count: 2)
    _ = try await client.push(headers: ["authorization": "bearer \(client.providerToken())"])
    await #expect(throws: SimulatedProviders.TimedOut.self) {
      try await client.simulator.waitForDeliveries(count: 2, timeout: .milliseconds(20))
    }
    _ = try await client.message(#"{"message":{"token":"t"}}"#, bearer: client.accessToken())
    #expect(try await waiting.count == 2)
  }

  @Test func `sets and removes rules for a token`() async throws {
    let set = try await client.control(
      .PUT, "/tokens/\(Client.token)",
      #"{"status":410,"reason":"ExpiredToken","timestamp":99,"retry_after":"5","delay_ms":1}"#)
    #expect(set.status == 200)
    let gone = try await client.push()
    #expect(gone.json["timestamp"] as? Int == 99)
    #expect(gone.reason == "ExpiredToken")
    #expect(gone.headers["retry-after"] == ["5"])
    #expect(try await client.control(.DELETE, "/tokens/\(Client.token)").status == 200)
    #expect(try await client.push().status == 200)
    _ = try await client.control(.PUT, "/tokens/phone%3A1", #"{"status":404,"retry_after":7}"#)
    let fcm = try await client.message(#"{"message":{"token":"phone:1"}}"#, bearer: client.accessToken())
    #expect(fcm.status == 404)
    #expect(fcm.headers["retry-after"] == ["7"])
  }

  @Test func `sets faults for both or for one, shows them and resets all`() async throws {
    let set = try await client.control(
      .PUT, "/faults",
      #"{"latency_ms":5,"apns":{"goaway_every":10,"status":429,"retry_after":3},"oauth_status":503}"#)
    #expect(set.status == 200)
    #expect(client.simulator.faults.apns.latencyMilliseconds == 5)
    #expect(client.simulator.faults.fcm.latencyMilliseconds == 5)
    #expect(client.simulator.faults.apns.goAwayEvery == 10)
    #expect(client.simulator.faults.fcm.goAwayEvery == nil)
    #expect(client.simulator.faults.apns.retryAfter == "3")
    #expect(client.simulator.faults.oauthStatus == 503)
    #expect(try await client.control(.GET, "/faults").body == set.body)
    // What was shown can be put back.
    let before = client.simulator.faults
    _ = try await client.control(.PUT, "/faults", set.body)
    #expect(client.simulator.faults == before)
    #expect(try await client.control(.DELETE, "").status == 200)
    #expect(client.simulator.faults == Faults())
  }

  @Test func `counts without keeping when told so, and keeps no more than its limit`() async throws {
    var configuration = SimulatedProviders.Configuration()
    configuration.keptDeliveries = 20
    try await Client.with(configuration) { client in
      _ = try await client.control(.PUT, "/faults", #"{"record":false}"#)
      _ = try await client.push()
      #expect(client.simulator.counts.apns == 1)
      #expect(client.simulator.deliveries().isEmpty)
      _ = try await client.control(.DELETE, "")
      for _ in 0..<75 { _ = try await client.push() }
      #expect(client.simulator.deliveries().map(\.sequence) == Array(56...75))
      #expect(client.simulator.deliveries(since: 70).map(\.sequence) == Array(71...75))
      client.simulator.reset()
      _ = try await client.push()
      #expect(client.simulator.deliveries().map(\.sequence) == [76])
      #expect(client.simulator.counts.apns == 1)
    }
  }

  @Test(arguments: [
    ("/faults", #"{"latency":5}"#, "latency"),
    ("/faults", #"{"apns":{"latency_ms":"5"}}"#, "apns.latency_ms"),
    ("/faults", #"{"apns":5}"#, "apns"), ("/faults", #"{"every":2}"#, "status"),
    ("/faults", #"{"status":200}"#, "status"), ("/faults", #"{"goaway_every":-1}"#, "goaway_every"),
    ("/faults", #"{"rst_every":1,"rst_code":"X"}"#, "rst_code"), ("/faults", "[]", "JSON object"),
    ("/tokens/c0ffee", #"{"status":42}"#, "status"), ("/tokens/c0ffee", #"{"times":0}"#, "times"),
    ("/tokens/c0ffee", #"{"resaon":"x"}"#, "resaon"),
  ]) func `names what is wrong with a control call and changes nothing`(
    path: String, body: String, name: String
  ) async throws {
    let answer = try await client.control(.PUT, path, body)
    #expect(answer.status == 400)
    #expect((answer.json["error"] as? String)?.contains(name) == true, "\(answer.body)")
    #expect(client.simulator.faults == Faults())
    #expect(try await client.push().status == 200)
  }

  @Test func `knows no other control calls or parameters`() async throws {
    #expect(try await client.control(.GET, "/nothing").status == 404)
    #expect(try await client.control(.POST, "/faults", "{}").status == 404)
    #expect(try await client.control(.GET, "/deliveries?from=1").status == 400)
    #expect(try await client.control(.GET, "/deliveries?since=x").status == 400)
    let tls = try await client.send(.GET, "\(client.simulator.fcmEndpoint)/_control/counts")
    #expect(tls.status == 200)
  }
}
