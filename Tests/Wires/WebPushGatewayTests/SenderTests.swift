import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Providers
import Sealing
import Server
import TestService
import TestSupport
import Testing

@Suite("Senders of Web Push")
struct SenderTests {
  @Test func `may send to a subscription for their key, in either form of VAPID`() async throws {
    try await Gateway.test { gateway in
      let sender = Sender()
      let app = try await gateway.subscribe(Gateway.registration(sender: sender))
      let end = gateway.clock.now.timeIntervalSince1970.rounded() + 3600
      let token = try sender.token(until: end)
      for headers in [
        [.authorization: "vapid t=\(token), k=\(sender.publicKey)"],
        [.authorization: "VAPID k=\"\(sender.publicKey)\" ,t=\(token)"],
        [.authorization: "vapid t=\(token),k=\(sender.publicKey)="],
        [
          .authorization:
            "vapid t=\(token);k=\(sender.publicKey.replacing("-", with: "+").replacing("_", with: "/"))=="
        ],
        [.authorization: "Bearer \(token)", .cryptoKey: "p256ecdsa=\(sender.publicKey),dh=BEl6"],
        [.authorization: "WebPush \(token)", .cryptoKey: "dh=BEl6;p256ecdsa=\(sender.publicKey)"],
        try sender.authorization(at: gateway.clock.now, for: "https://push.example.org:443"),
        try sender.authorization(at: gateway.clock.now, for: "HTTPS://Push.Example.org"),
        try sender.authorization(at: gateway.clock.now, for: "https://push.example.org/"),
      ] as [HTTPFields] {
        let answer = try await gateway.post(app, headers)
        #expect(answer.status == 201, "\(answer.text)")
      }
    }
  }

  @Test func `are refused where they are not who they say, with the RFC's status`() async throws {
    try await Gateway.test { gateway in
      let sender = Sender()
      let restricted = try await gateway.subscribe(Gateway.registration(sender: sender))
      let open = try await gateway.subscribe()
      let now = gateway.clock.now.timeIntervalSince1970.rounded()
      let good = try sender.token(until: now + 3600)
      func vapid(_ token: String, _ key: String = sender.publicKey) -> HTTPFields {
        [.authorization: "vapid t=\(token), k=\(key)"]
      }
      let other = Sender()
      let wrong: [(HTTPFields, Int, String)] = [
        ([.authorization: "vapid t=\(good)"], 401, "malformed"),
        ([.authorization: "Basic YTpi"], 401, "malformed"),
        ([.authorization: "WebPush \(good)"], 401, "malformed"),
        ([.authorization: "vapid t=\(String(repeating: "A", count: 16_384)), k=x"], 401, "malformed"),
        (vapid(good, "AAAA"), 403, "key is malformed"),
        (vapid(good, Base64URL.encode([4] + [UInt8](repeating: 7, count: 64))), 403, "key is malformed"),
        (vapid("a.b"), 403, "not signed"), (vapid(good + "A"), 403, "not signed"),
        (vapid(try sender.token(until: now + 3600, by: other)), 403, "not signed"),
        (vapid(try sender.token(until: now + 3600, algorithm: "none")), 403, "not signed"),
        (
          vapid(try sender.token(for: "https://fcm.googleapis.com", until: now + 3600)), 403,
          "another service"
        ),
        (vapid(try sender.token(for: "http://push.example.org", until: now + 3600)), 403, "another service"),
        (
          vapid(try sender.token(for: "https://push.example.org:8443", until: now + 3600)), 403,
          "another service"
        ),
        (
          vapid(try sender.token(for: "https://\(String(repeating: "a", count: 600))", until: now + 3600)),
          403,
          "must have aud"
        ),
        (vapid(try sender.token(until: now - 61)), 403, "expired"),
        (vapid(try sender.token(until: now + 86_400 + 960)), 403, "24 hours"),
      ]
      for (headers, status, message) in wrong {
        for app in [restricted, open] {
          let answer = try await gateway.post(app, headers)
          #expect(answer.status == status, "\(headers) \(answer.text)")
          #expect(answer.json["message"]?.string?.contains(message) == true, "\(answer.text)")
          if status == 401 { #expect(answer.headers[.wwwAuthenticate] == "vapid") }
        }
      }
      let missing = try await gateway.post(restricted)
      #expect(missing.status == 401 && missing.headers[.wwwAuthenticate] == "vapid")
      let foreign = try await gateway.post(restricted, other.authorization(at: gateway.clock.now))
      #expect(foreign.status == 403 && foreign.json["message"]?.string?.contains("another VAPID key") == true)
      #expect(gateway.simulator.deliveries().isEmpty)
      #expect(try await gateway.post(open, other.authorization(at: gateway.clock.now)).status == 201)
    }
  }

  @Test func `whose token has been verified once are refused when it ends`() async throws {
    try await Gateway.test { gateway in
      let sender = Sender()
      let app = try await gateway.subscribe(Gateway.registration(sender: sender))
      let headers = try sender.authorization(at: gateway.clock.now)
      #expect(try await gateway.post(app, headers).status == 201)
      gateway.clock.advance(3650)
      #expect(try await gateway.post(app, headers).status == 201)
      gateway.clock.advance(20)
      #expect(try await gateway.post(app, headers).status == 403)
    }
  }

  @Test func `share the outbox by key where a subscription names one, else by the app's address`()
    async throws
  {
    try await Gateway.test { gateway in
      let sender = Sender()
      var faults = gateway.simulator.faults
      faults.fcm.outage = true
      await gateway.simulator.setFaults(faults)
      for address in ["198.51.100.1", "198.51.100.2"] {
        let restricted = try await gateway.subscribe(Gateway.registration(sender: sender), from: address)
        #expect(try await gateway.post(restricted, sender.authorization(at: gateway.clock.now)).status == 201)
        let open = try await gateway.subscribe(from: address)
        #expect(try await gateway.post(open, sender.authorization(at: gateway.clock.now)).status == 201)
      }
      #expect(try await gateway.count("outbox_routes") == 3)
    }
  }
}
