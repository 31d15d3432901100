internal import Foundation
internal import HTTP
internal import Hummingbird
internal import Logging
internal import Registrations

extension ZulipServerRoutes {
  /// `POST mobile_push/e2ee/test_notification` (`Documentation/Protocols/Zulip.md` 10.7): to one device of
  /// the user, or to all.
  func sendTest(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let id = try parameters.optionalInteger("device_id")
    guard dependencies.registrar != nil else { throw APIError.pushServiceNotConfigured }
    let devices = try await dependencies.devices.active(user: user.id).filter { id == nil || $0.id == id }
    guard !devices.isEmpty else { throw APIError.noActiveDevice }
    let payload: JSON.Object = [
      "realm_name": .string(user.realm.name), "realm_url": .string(user.realm.url),
      "time": .integer(Int64(dependencies.now().timeIntervalSince1970)), "type": "test",
      "user_id": .integer(user.userID),
    ]
    do {
      let result = try await dependencies.notifier.send(payload, to: devices, of: user)
      guard result.gone < result.devices else { throw APIError.noActiveDevice }
    } catch let error as BouncerError {
      context.logger.warning("test notification failed", metadata: ["reason": "\(error)"])
      throw APIError(error)
    }
    return parameters.success()
  }
}
