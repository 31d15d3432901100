internal import Crypto
internal import Hummingbird
internal import Registrations
internal import Sealing
internal import Wire

extension NextcloudProxy {
  /// `POST /devices` (`spec/nextcloud.md` 5.1 and 6). Whether an identifier is known is told to nobody who
  /// has no signature of it.
  func register(_ request: Request, _ context: WireContext) async throws -> Response {
    let parameters = try await DeviceParameters(request, limit: configuration.maximumBodyBytes)
    let token = try parameters.required("pushToken")
    guard let destination = configuration.apps.destination(of: token, userAgents: parameters.userAgents)
    else { throw ProxyError("pushToken is malformed: it is no token of APNs or FCM that this app can have.") }
    let signed = try SignedIdentifier(parameters)
    let registration = NextcloudDevice.Registration(
      identifier: signed.identifier, userKey: signed.userKey.der, token: token,
      tokenHash: Array(SHA512.hash(data: Array(token.utf8))), destination: destination)
    if try await dependencies.devices.register(registration) { return Self.done }
    guard let text = parameters.optional("cloudId") else {
      throw ProxyError(
        .conflict,
        """
        deviceIdentifier is registered with another key. Send cloudId along to prove whose it is, or have the \
        server give this device a new identifier.
        """)
    }
    try await prove(signed, text, context)
    _ = try await dependencies.devices.register(registration, isProven: true)
    return Self.done
  }

  /// `DELETE /devices` (`spec/nextcloud.md` 5.2).
  func unregister(_ request: Request, _ context: WireContext) async throws -> Response {
    let parameters = try await DeviceParameters(request, limit: configuration.maximumBodyBytes)
    let signed = try SignedIdentifier(parameters)
    guard
      try await dependencies.devices.remove(identifier: signed.identifier, userKey: signed.userKey.der)
    else { throw ProxyError(.forbidden, "There is no device with this deviceIdentifier and userPublicKey.") }
    return Self.done
  }

  /// Asks the account's own server for its key.
  private func prove(_ signed: SignedIdentifier, _ text: String, _ context: WireContext) async throws {
    guard let cloudID = CloudID(text) else {
      throw ProxyError("cloudId is malformed: it is user@host, with the server's port and path if any.")
    }
    try Self.count(context.clientAddress, proofsPerAddress)
    guard await identityProof.key(of: cloudID) == signed.userKey else {
      throw ProxyError(
        .forbidden, "The server of cloudId does not say that userPublicKey is the key of that user.")
    }
  }
}
