import NIOCore
import Timing

/// Which push services may be called, and at which addresses. Their names come from strangers.
struct WebPushAddresses: Sendable {
  /// Why a host is not called.
  enum Refusal: Error {
    /// The name has no address.
    case unknown
    /// It has one that must not be called, or is one.
    case forbidden
  }

  /// How long a registration waits for what a name means.
  private static let patience = Duration.seconds(2)
  /// How long a connection waits for what a name means that has answered before.
  private static let haste = Duration.milliseconds(300)
  /// How long such a name may take to answer for the next connection.
  private static let leisure = Duration.seconds(10)
  /// As many addresses of a name are tried.
  private static let most = 3
  /// Endings of names that mean nothing outside of a house.
  private static let privateEndings = [".localhost", ".local", ".internal", ".lan", ".home.arpa"]

  /// Those that may be anywhere, in lower case.
  let privateHosts: Set<String>
  let resolve: @Sendable (String) async throws -> [String]
  private let former = FormerAddresses()

  init(privateHosts: Set<String>, resolve: @escaping @Sendable (String) async throws -> [String]) {
    self.privateHosts = privateHosts
    self.resolve = resolve
  }

  /// Whether a subscription on this host may be registered. A name that does not answer is taken: it is looked up again
  /// for each connection.
  func allow(_ host: String) async -> Bool {
    guard !privateHosts.contains(host) else { return true }
    guard !Self.isPrivateName(host) else { return false }
    guard let addresses = try? await withTimeout(Self.patience, { try await resolve(host) }) else {
      return true
    }
    return addresses.allSatisfy { IPAddress($0)?.isPublic == true }
  }

  /// Where to connect to: no address but those that are looked at here. Where a name that has answered before does not
  /// at once, they are those that it had then.
  ///
  /// - Throws: ``Refusal``, or `LookupsExhausted`.
  func addresses(of host: String) async throws -> [String] {
    let isTrusted = privateHosts.contains(host)
    guard isTrusted || !Self.isPrivateName(host) else { throw Refusal.forbidden }
    let addresses = try await lookUp(host)
    guard !addresses.isEmpty else { throw Refusal.unknown }
    // One forbidden address spoils a name: a public host has none.
    guard isTrusted || addresses.allSatisfy({ IPAddress($0)?.isPublic == true }) else {
      throw Refusal.forbidden
    }
    return Array(addresses.prefix(Self.most))
  }

  private func lookUp(_ host: String) async throws -> [String] {
    guard let known = former[host] else {
      let addresses = try await resolve(host)
      former.note(addresses, of: host)
      return addresses
    }
    // Goes on when nobody waits any more, for the next time; not for long, as others want to ask, too.
    Task {
      guard let addresses = try? await withTimeout(Self.leisure, { try await resolve(host) }) else { return }
      former.note(addresses, of: host)
    }
    return (try? await withTimeout(Self.haste) { try await resolve(host) }) ?? known
  }

  /// Whether a host is an address, however spelled, or has a name that means nothing outside.
  static func isPrivateName(_ host: String) -> Bool {
    guard !host.contains(":"), let dot = host.lastIndex(of: ".") else { return true }
    // What ends in a number is an address to many a resolver: 127.1, 0x7f.1.
    let last = host[host.index(after: dot)...]
    return last.utf8.allSatisfy { (0x30...0x39).contains($0) } || last.hasPrefix("0x")
      || privateEndings.contains { host.hasSuffix($0) }
  }
}
