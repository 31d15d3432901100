import Foundation
import HTTP
import NIOHTTP1

/// The fifth part: apps that get Web Push by way of the gateway.
extension Story {
  func playGateway() async throws {
    print("\nNow any chat that speaks Web Push.\n")
    for appID in ["org.example.chat", nil] {
      let phone = try await GatewayPhone(at: bouncer, appID: appID, client: home.client)
      let name = appID == nil ? "The Android phone" : "The iPhone"
      step("\(name)'s app subscribes at the gateway, and gives its chat the endpoint and its public keys.")
      // The second does not fit into a push.
      for text in ["Who's there?", String(repeating: "Nay, answer me. ", count: 240)] {
        var seen = try await home.next()
        let status = try await phone.send(text)
        try expect(status == .created, "the chat's message is taken: \(status)")
        let delivery = try await arrival(of: "a message", after: &seen)
        let opened = try await phone.open(delivery)
        try expect(try opened?.get() == text, "the phone reads it")
        step(
          "A message of \(text.utf8.count) bytes arrives, and only the phone can read it: \(text.prefix(12))..."
        )
      }
      try await phone.end()
      try expect(try await phone.send("Farewell") == .gone, "the chat is told that nobody is there")
      step("\(name)'s app ends its subscription; the chat's next message is answered with 410.")
    }
  }
}
