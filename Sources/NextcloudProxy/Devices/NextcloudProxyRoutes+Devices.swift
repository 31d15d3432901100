internal import Crypto
internal import HTTP
internal import Hummingbird
internal import Logging
internal import Sealing

extension NextcloudProxyRoutes {
  /// `POST /devices`. A device is an identifier together with the key that has signed it, so that nobody
  /// stands in the way of anybody: neither of a server that has made new keys for its users, nor of a device
  /// whose identifier somebody has guessed. `cloudId`, which the documents know, is not needed for that.
  func register(_ request: Request, _ context: WireContext) async throws -> Response {
    let parameters = try await DeviceParameters(request, limit: configuration.maximumBodyBytes)
    let token = try parameters.required("pushToken")
    guard let shape = TokenShape(token) else {
      throw ProxyError("pushToken is malformed: it is no token of APNs or FCM.")
    }
    let signed = try SignedIdentifier(parameters)
    guard let app = configuration.apps.app(of: parameters.userAgents) else {
      if let name = unknownApps.add(parameters.userAgents.first ?? "") {
        context.logger.warning(
          """
          an app that nobody knows was refused: an entry of nextcloud.apps_file with a user_agent that \
          matches lets it in, or nextcloud.default_app
          """, metadata: ["user_agent": "\(name)"])
      }
      throw ProxyError("This app is not known here: the operator of this push proxy has to add it.")
    }
    guard let destination = app.destination(of: shape, userAgents: parameters.userAgents) else {
      throw ProxyError("pushToken is malformed: it is no token that this app can have.")
    }
    try await dependencies.devices.register(
      .init(
        identifier: signed.identifier, userKey: signed.userKey.der, token: token,
        tokenHash: Array(SHA512.hash(data: Array(token.utf8))), destination: destination),
      from: context.clientAddress.source.description
    ) {
      guard let seconds = newDevices.count(context.clientAddress.source).retryAfter else { return }
      throw ProxyError(
        .tooManyRequests, "Too many new devices from this address. Try again later.",
        retryAfter: Int(seconds.rounded(.up)))
    }
    await dependencies.lossDetector.registered()
    return Self.done
  }

  /// `DELETE /devices`.
  func unregister(_ request: Request, _ context: WireContext) async throws -> Response {
    let parameters = try await DeviceParameters(request, limit: configuration.maximumBodyBytes)
    let signed = try SignedIdentifier(parameters)
    guard
      try await dependencies.devices.remove(identifier: signed.identifier, userKey: signed.userKey.der)
    else { throw ProxyError(.forbidden, "There is no device with this deviceIdentifier and userPublicKey.") }
    return Self.done
  }
}
