package import Basics

/// The way a push takes: a credential with its environment, and a topic or project; or a host of Web Push.
/// Each route has its own health, so that a bad key or a slow provider affects only its own pushes.
package struct Route: Sendable, Hashable, CustomStringConvertible {
  package let provider: Provider
  /// The credential's name, which is its file's stem. For Web Push the push service's host, for the upstream bouncer
  /// its host, with its port unless that is 443.
  package let credential: String
  /// The topic (APNs) or the project id (FCM); empty for others.
  package let target: String
  /// Of its texts, made once: whatever counts something looks it up by its route.
  private let hash: Int

  package init(provider: Provider, credential: String, target: String) {
    self.provider = provider
    self.credential = credential
    self.target = target
    var hasher = Hasher()
    hasher.combine(provider)
    hasher.combine(credential)
    hasher.combine(target)
    hash = hasher.finalize()
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(hash) }

  /// As it appears in logs: `apns:simulator org.example.chat`, `webpush:push.example.org`.
  package var description: String {
    let name = credential.isEmpty ? provider.rawValue : "\(provider.rawValue):\(credential)"
    return target.isEmpty ? name : "\(name) \(target)"
  }
}

extension Owner {
  /// A chat server, by its row.
  package static func chatServer(_ row: Int64) -> Owner { Owner(id: row << 2 | 1) }
  /// The row of the chat server; nil for any other owner.
  package var chatServer: Int64? { id & 3 == 1 ? id >> 2 : nil }
  /// Everything that one address (or IPv6 /64) registered with the push proxy or the Web Push gateway, by a keyed hash of
  /// the address; or what one sender's key sends through the gateway, by a keyed hash of the key.
  package static func address(_ hash: Int64) -> Owner { Owner(id: hash << 2 | 2) }
  /// An address of which its network can be told: 31 bits of a keyed hash of the network come before 30 of the address.
  package static func address(_ hash: Int64, in network: Int64) -> Owner {
    Owner(id: (network & 0x7FFF_FFFF) << 32 | (hash & 0x3FFF_FFFF) << 2 | 2)
  }
  /// The network of an ``address(_:in:)``.
  package var network: Int64 { id >> 32 }
  /// A user of the built-in server, by its row.
  package static func user(_ row: Int64) -> Owner { Owner(id: row << 2 | 3) }
}

/// The owner and token of a push, by which a route tells pushes apart.
struct Recipient: Sendable, Hashable {
  let owner: Owner
  /// A hash of the token, valid in this process only.
  let token: Int
  /// Whether it is a call other than a push: refused pushes do not hold it up, and its answer says nothing about pushes.
  var isCall = false
}
