import Backend
import Registrations
import Wire
import ZulipServer

extension BuiltInServer {
  /// Sends the parts of a notification, each by its way.
  func notify(_ user: User, _ message: Backend.Message) async throws -> [Backend.PartResult] {
    // All of it is read before any of it is sent.
    let parts = Notifier.Message(
      encrypted: try message.zulip?.members(), legacy: try message.legacy.map(LegacyMessage.init))
    let outcome = try await notifier.notify(user, parts)
    var results: [Backend.PartResult] = []
    if let result = outcome.encrypted { results.append(.init("zulip", result.map(\.json))) }
    if let result = outcome.legacy { results.append(.init("legacy", result.map(\.json))) }
    return results
  }
}
