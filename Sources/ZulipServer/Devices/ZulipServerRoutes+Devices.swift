internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Registrations
internal import Sealing

extension ZulipServerRoutes {
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
      throw APIError.invalidTokenKind(kindText)
    }
    let key = parameters.optional("push_key")
    let keyID = try parameters.optionalInteger("push_key_id").map { number throws(APIError) in
      guard let id = UInt32(exactly: number) else {
        throw APIError.invalidPushKeyID
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
