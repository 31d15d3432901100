package import Providers

extension Route {
  /// All of Web Push.
  package static let webPush = Route(provider: .webPush, credential: "", target: "")

  /// The route that it is counted as: push services come from strangers, so that all of Web Push is one.
  package var counted: Route { provider == .webPush ? .webPush : self }
}
