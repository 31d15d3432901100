internal import HTTP

extension Configuration {
  /// A value that would let strangers do what only the operator may.
  package struct Weakness: Sendable, Hashable {
    /// The key.
    package let key: String
    /// What is wrong with its value.
    package let problem: String
    /// What would mend it.
    package let advice: String
  }

  /// What `serve` refuses to start with.
  package var weaknesses: [Weakness] {
    var found: [Weakness] = []
    if let backendToken, Self.isWeak(backendToken) { found.append(Self.weak("backend.token")) }
    if !Self.isLoopback(admin.host) {
      if let token = admin.token {
        if Self.isWeak(token) { found.append(Self.weak("admin.token")) }
      } else {
        found.append(
          Weakness(
            key: "admin.host", problem: "is not a loopback address, and there is no admin.token",
            advice: "set admin.token, or let admin.host be 127.0.0.1"))
      }
    }
    return found
  }

  private static func weak(_ key: String) -> Weakness {
    Weakness(
      key: key, problem: "is too easily guessed: it wants 16 characters at least, random ones",
      advice: "make one: openssl rand -hex 32")
  }

  private static func isWeak(_ token: String) -> Bool { token.utf8.count < 16 || Set(token.utf8).count < 6 }

  private static func isLoopback(_ host: String) -> Bool {
    if host == "localhost" { return true }
    let loopback = ["127.0.0.0/8", "::1"].compactMap(ClientAddress.Network.init)
    return ClientAddress(host).map { address in loopback.contains { $0.contains(address) } } ?? false
  }
}
