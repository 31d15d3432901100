import Basics
package import Foundation
import Logging
import Synchronization

/// The client behind proxies, by `X-Forwarded-For`: the list is followed from the nearest proxy outward while each proxy
/// is trusted.
struct ForwardedFor {
  /// The nearest address that is not a trusted proxy's; if the list ends or cannot be read first, the last proxy's.
  private(set) var client: ClientAddress
  /// The proxy that sent what ``fault`` is about.
  var proxy: ClientAddress { client }
  private(set) var fault: ForwardingFaults.Fault?

  init(_ list: String, from peer: ClientAddress, trusted: [ClientAddress.Network]) {
    func isTrusted(_ address: ClientAddress) -> Bool { trusted.contains { $0.contains(address) } }
    client = peer
    guard isTrusted(peer) else {
      fault = .untrusted
      return
    }
    for entry in list.utf8.split(separator: UInt8(ascii: ",")).reversed() {
      guard let address = Self.address(entry) else {
        fault = .unreadable(Self.shown(entry))
        return
      }
      client = address
      if !isTrusted(address) { return }
    }
  }

  private static let longestEntry = 64

  /// Reads an entry: `192.0.2.1`, `192.0.2.1:51844`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:51844`.
  private static func address(_ entry: Substring.UTF8View) -> ClientAddress? {
    guard entry.count <= longestEntry else { return nil }
    let text = String(Substring(entry)).strippingWhitespace()[...]
    if let plain = ClientAddress(String(text)) { return plain }
    let (host, rest): (Substring, Substring)
    if text.utf8.first == UInt8(ascii: "["), let end = text.utf8.firstIndex(of: UInt8(ascii: "]")) {
      (host, rest) = (
        text[text.index(after: text.startIndex)..<end], text[text.index(after: end)...]
      )
      guard host.utf8.contains(UInt8(ascii: ":")) else { return nil }
    } else if let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) {
      host = text[..<colon]
      rest = text[colon...]
    } else {
      return nil
    }
    guard rest.isEmpty || isPort(rest) else { return nil }
    return ClientAddress(String(host))
  }

  /// Whether it is a colon and a number of up to 16 bits.
  private static func isPort(_ text: Substring) -> Bool {
    let digits = text.utf8.dropFirst()
    return text.utf8.first == UInt8(ascii: ":") && digits.allSatisfy(\.isASCIIDigit)
      && UInt16(Substring(digits)) != nil
  }

  /// The entry in printable ASCII, for the operator.
  private static func shown(_ entry: Substring.UTF8View) -> String {
    let bytes = entry.prefix(longestEntry).map {
      (0x20...0x7E).contains($0) ? $0 : UInt8(ascii: "?")
    }
    return String(decoding: bytes, as: UTF8.self).strippingWhitespace()
  }
}

/// Reports that `X-Forwarded-For` does not show the client, so that all clients behind an address share one limit. Logs
/// each address once an hour, and a limited number in all, since anybody can send the header.
package final class ForwardingFaults: Sendable {
  enum Fault: Sendable, Hashable {
    /// The header comes from an address that is not trusted: usually the operator's own reverse proxy.
    case untrusted
    /// A trusted proxy has sent an entry that is not an address.
    case unreadable(String)
  }

  /// An entry that could not be read, and the proxy that sent it.
  package struct Unreadable: Sendable, Hashable {
    package var proxy: String
    package var entry: String

    package init(proxy: String, entry: String) {
      self.proxy = proxy
      self.entry = entry
    }
  }

  /// The number of addresses that are logged in an hour, of each kind of fault.
  static let maximum = 20
  static let hour = 3600.0

  /// Whom a line is about, and of which kind it is.
  private struct Subject: Hashable, Sendable {
    let address: ClientAddress
    let isUnreadable: Bool
  }

  private let now: @Sendable () -> Date
  private let subjects: Rate<Subject>
  private let lines: Rate<Bool>
  private let last = Mutex<(entry: Unreadable, at: Date)?>(nil)

  package init(now: @escaping @Sendable () -> Date = { Date() }) {
    self.now = now
    subjects = Rate(.init(calls: 1, seconds: Self.hour), now: now)
    lines = Rate(.init(calls: Self.maximum, seconds: Self.hour), now: now)
  }

  /// The last entry within an hour that could not be read.
  package var unreadable: Unreadable? {
    let now = now()
    return last.withLock { $0.flatMap { now.timeIntervalSince($0.at) < Self.hour ? $0.entry : nil } }
  }

  func report(_ fault: Fault, of address: ClientAddress, to logger: Logger) {
    var isUnreadable = false
    if case .unreadable(let entry) = fault {
      isUnreadable = true
      last.withLock { $0 = (Unreadable(proxy: "\(address)", entry: entry), now()) }
    }
    guard subjects.take(of: Subject(address: address.source, isUnreadable: isUnreadable)) == 1,
      lines.take(of: isUnreadable) == 1
    else { return }
    switch fault {
    case .untrusted:
      logger.warning(
        "X-Forwarded-For is not believed: all clients behind this address count as one",
        metadata: [
          "address": "\(address)",
          "advice":
            "if it is your own proxy, name it in http.trusted_proxies; otherwise some client has sent the header",
        ])
    case .unreadable(let entry):
      logger.warning(
        "X-Forwarded-For cannot be read: all clients behind this proxy count as one",
        metadata: [
          "address": "\(address)", "entry": "\(entry)", "advice": .stringConvertible(Unreadable.advice),
        ])
    }
  }
}

extension ForwardingFaults.Unreadable {
  package static let advice =
    "have the proxy write the client's address there: 192.0.2.1, 2001:db8::1 or [2001:db8::1], with or without a port"
}
