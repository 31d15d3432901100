import HTTPClient

/// The senders of the present credentials of one provider, with their connections and tokens.
protocol ProviderSenders: Sendable {
  var transports: [any Transport] { get }
  /// Those that are worth showing.
  var routeSenders: [RouteSender] { get }
  /// The targets that a credential serves.
  var targets: [String] { get }
  /// The sender to a target; nil means the default one.
  func routeSender(to target: String?) -> RouteSender?
  /// Replaces the credentials. Unchanged ones keep their senders.
  mutating func use(_ credentials: Credentials, _ factory: SenderFactory)
}

extension ProviderSenders {
  /// The sender over a route: the former one, unless its route or connections have changed.
  static func routeSender(
    to target: String, of credential: String, over sender: Sender, formerly: RouteSender?,
    _ factory: SenderFactory
  ) -> RouteSender {
    let route = Route(provider: sender.provider, credential: credential, target: target)
    if let formerly, formerly.route == route, formerly.transport === sender.transport { return formerly }
    return RouteSender(route, sender, factory.metrics)
  }
}
