import Foundation
package import HTTP
package import Sealing

/// When a service took a phone's notifications and how long each leg of their way was, as its operator's listener says.
package struct DeliveryTimes {
  private let ask: @Sendable (String) async -> JSON?
  /// How many notifications of each token have been asked for.
  private var shown: [TokenID: Int] = [:]

  /// - Parameter ask: asks the operator's listener for `/deliveries`, by a text that names devices; nil without an answer.
  package init(ask: @escaping @Sendable (String) async -> JSON?) {
    self.ask = ask
  }

  /// The next notification to a token; nil if the service does not know of it within a second. It hears from the
  /// provider a little later than the phone.
  package mutating func next(to token: TokenID) async -> JSON? {
    let index = shown[token, default: 0]
    shown[token] = index + 1
    let hexadecimal = String(UInt64(bitPattern: token.storage), radix: 16)
    let text = String(repeating: "0", count: 16 - hexadecimal.count) + hexadecimal
    for _ in 0..<10 {
      guard let deliveries = await ask(text)?["deliveries"]?.elements else { return nil }
      if deliveries.count > index { return deliveries[index] }
      try? await Task.sleep(for: .milliseconds(100))
    }
    return nil
  }

  /// `taken at 12:00:00.123; 1.2 ms until it was handed to delivery, 0.1 ms in the queue, 14.0 ms at FCM`
  package static func sentence(_ delivery: JSON) -> String {
    func leg(_ name: String) -> String? {
      if case .number(let text)? = delivery[name] { text } else { delivery[name]?.integer.map { "\($0)" } }
    }
    let time = delivery["taken_at"]?.string?.split(separator: "T").last?.dropLast() ?? ""
    let provider =
      ["apns": "Apple", "fcm": "Google"][
        delivery["provider"]?.string ?? ""]
      ?? "the push service"
    let request = leg("request_ms").map { "\($0) ms for the chat server's request, " } ?? ""
    return """
      taken at \(time) UTC; \(request)\(leg("queue_ms") ?? "?") ms in the queue, \(leg("provider_ms") ?? "?") ms at \
      \(provider)
      """
  }
}
