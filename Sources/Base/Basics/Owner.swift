/// The owner of a request: a chat server, a user or an address. Shared resources are divided between owners, and one
/// owner's failures are not counted as the route's.
package struct Owner: Sendable, Hashable {
  /// The number that the outbox stores; 0 for ``nobody``.
  package let id: Int64

  package init(id: Int64) { self.id = id }

  /// No owner in particular.
  package static let nobody = Owner(id: 0)
}
