import Foundation
import HTTP
import Sealing

/// In between: a phone without Google's services, at the same stock server.
extension Story {
  func playWithoutGoogle(at server: ChatServer) async throws {
    tell("\nNow a phone without Google.\n")
    let first = try await pushService.subscribe(for: bouncer)
    step(
      """
      It asks the bouncer for its VAPID key, and with that key a push service of its user's choice for an endpoint:
          \(first.endpoint)
      """)
    var phone = VirtualPhone(first)
    try await register(phone, at: server)
    try await send("Lunch at noon?", to: phone, at: first, from: server, showWire: true)

    try await pushService.end(first)
    let answer = try await server.notify([phone], plaintext("Are you coming?"))
    try expect(answer["delete_token_ids"] == [.string(phone.tokenID.base64)], "the dead endpoint is named")
    step(
      """
      The user removes the distributor: the endpoint answers 410 Gone, the bouncer ends the registration and tells \
      the server to forget it.
      """)

    let second = try await pushService.subscribe(for: bouncer)
    phone.move(to: second)
    step("It is back with another distributor and another endpoint.")
    try await register(phone, at: server)
    try await send("There you are!", to: phone, at: second, from: server)
  }

  private func send(
    _ text: String, to phone: VirtualPhone, at subscription: PushSubscription, from server: ChatServer,
    showWire: Bool = false
  ) async throws {
    let answer = try await server.notify([phone], plaintext(text))
    try expect(
      answer["android_successfully_sent_count"] == 1 && answer["delete_token_ids"] == [],
      "the phone is reached")
    step(
      "The chat server seals \"\(text)\" under its push key; the bouncer encrypts that for the endpoint once more."
    )
    var seen: Int64 = 0
    let messages = try await pushService.messages(for: subscription, after: &seen)
    try expect(messages.count == 1, "one message arrives")
    guard let message = messages.first, let opened = phone.receive(message) else {
      throw DemoError("\(phone.name) got nothing that it can open")
    }
    try expect(opened == plaintext(text).text, "what arrives is what was sent")
    if showWire { tell("      Its push service sees \(message["payload"]?.string?.prefix(120) ?? "")...") }
    tell("      \(phone.name) decrypts \(opened)")
  }
}
