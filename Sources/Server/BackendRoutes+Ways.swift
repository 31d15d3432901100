import HTTP
import NextcloudServer
import Registrations
import ZulipServer

extension BackendRoutes {
  /// Sends the parts of the host application's notifications, each by its way, side by side.
  static func ways(
    _ builtIn: BuiltInServer, _ nextcloud: NextcloudAdapter?
  ) -> @Sendable (User, Message) async throws -> [PartResult] {
    { user, message in
      // All of it is read before any of it is sent.
      let zulip = Notifier.Message(
        encrypted: try message.zulip?.members(), legacy: try message.legacy.map(LegacyMessage.init))
      let phones = try message.nextcloud.map(NextcloudMessage.init)
      if let field = message.nextcloud, nextcloud == nil {
        throw APIError("\(field.path): nextcloud.enabled is false")
      }
      async let receipt = send(phones, to: user, nextcloud)
      let outcome = try await builtIn.notifier.notify(user, zulip)
      var results: [PartResult] = []
      if let result = outcome.encrypted { results.append(.init("zulip", result.map(\.json))) }
      if let result = outcome.legacy { results.append(.init("legacy", result.map(\.json))) }
      if let result = await receipt { results.append(.init("nextcloud", result)) }
      return results
    }
  }

  private static func send(
    _ message: NextcloudMessage?, to user: User, _ nextcloud: NextcloudAdapter?
  ) async -> Result<JSON, any Error>? {
    guard let message, let nextcloud else { return nil }
    do {
      return .success(try await nextcloud.sender.notify(user, message).json)
    } catch {
      return .failure(error)
    }
  }
}
