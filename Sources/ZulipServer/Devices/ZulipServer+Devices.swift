internal import Accounts
internal import HTTPTypes
internal import Hummingbird
internal import Sealing
internal import Wire

extension ZulipServer {
  /// `POST register_client_device` (`Documentation/Protocols/Zulip.md` 10.2).
  func addDevice(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    let parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let id = try await answering { try await dependencies.devices.add(user: user.id) }
    return parameters.success([.init("device_id", .integer(id))])
  }

  /// `POST remove_client_device` (10.2).
  func removeDevice(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let id = try parameters.integer("device_id")
    try await answering { try await dependencies.devices.remove(id, user: user.id) }
    return parameters.success()
  }

  /// `POST mobile_push/register` (10.4): takes what the client sent and answers at once; the bouncer hears of
  /// a token in its own time.
  func registerDevice(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let id = try parameters.integer("device_id")
    let registration = try DeviceRegistration(&parameters)
    guard let registrar = dependencies.registrar else { throw APIError.pushServiceNotConfigured }
    let isForBouncer = try await answering {
      try await dependencies.devices.register(registration, device: id, user: user.id)
    }
    if isForBouncer { registrar.wake() }
    return parameters.success()
  }

  private func answering<Result>(_ body: () async throws -> Result) async throws -> Result {
    do {
      return try await body()
    } catch let error as DeviceError {
      throw APIError(error)
    }
  }
}

extension DeviceRegistration {
  /// More than this no client sends: a token of 4096 bytes, sealed, in base64.
  private static let maximumSealed = 8192
  private static let maximumPublicKey = 256

  /// Groups that are not complete count as absent.
  fileprivate init(_ parameters: inout Parameters) throws(APIError) {
    let kindText = parameters.optional("token_kind")
    let kind = kindText.flatMap(PushToken.Kind.init)
    if let kindText, kind == nil {
      throw APIError("Invalid token_kind: Value error, \(kindText.prefix(16)) is neither fcm nor apns")
    }
    let key = parameters.optional("push_key")
    let keyID = try parameters.optionalInteger("push_key_id").map { number throws(APIError) in
      guard let id = UInt32(exactly: number) else {
        throw APIError("Invalid push_key_id: Value error, Not a valid unsigned 32-bit integer")
      }
      return id
    }
    let publicKey = try parameters.optionalText(
      "bouncer_public_key", .verbatim(maximum: Self.maximumPublicKey))
    let sealed = try parameters.optionalText(
      "encrypted_push_registration", .verbatim(maximum: Self.maximumSealed))
    let tokenID = parameters.optional("token_id")
    self.init(key: nil, token: nil)
    if let key, let keyID { self.key = Key(id: keyID, key: PushKey(base64: key)) }
    if let kind, let publicKey, let sealed, let tokenID {
      token = Token(kind: kind, id: TokenID(base64: tokenID), bouncerPublicKey: publicKey, sealed: sealed)
    }
  }
}

extension APIError {
  static var pushServiceNotConfigured: APIError {
    APIError(
      code: "PUSH_SERVICE_NOT_CONFIGURED", "Server is not configured to use push notification service.")
  }

  fileprivate init(_ error: DeviceError) {
    switch error {
    case .unknownDevice: self.init("Invalid `device_id`")
    case .nothingToDo:
      self.init("Missing parameters: must provide either all push key fields, all token fields, or both.")
    case .noKeyToRotate: self.init("No push registration exists to rotate key for.")
    case .noKeyForToken: self.init("No push registration exists to rotate token for.")
    case .invalidPushKey: self.init("Invalid `push_key`")
    case .invalidTokenID: self.init("`token_id` is not Base64 encoded")
    case .inProgress: self.init("A registration for the device already in progress.")
    case .tooMany: self.init("Too many devices (limit: \(Devices.maximumPerUser)): remove one first.")
    }
  }
}
