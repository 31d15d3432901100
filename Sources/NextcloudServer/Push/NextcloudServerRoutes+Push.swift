internal import HTTP
internal import HTTPTypes
internal import Registrations
internal import Sealing

extension NextcloudServerRoutes {
  /// `POST v2/push`: a phone that is to get the user's pushes by way of the proxy it names
  /// (`Documentation/Protocols/Nextcloud.md` 5.3).
  func register(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let hash = try PushParameters.pushTokenHash(call["pushTokenHash"])
    let key = try PushParameters.deviceKey(call["devicePublicKey"])
    let proxy = try PushParameters.proxyServer(
      call["proxyServer"], allowsLocal: configuration.allowsLocalProxies)
    return try await register(login, call, hash: hash, key: key, proxy: proxy)
  }

  /// `DELETE v2/push`: the phone that has signed in with this app password gets no more.
  func unregister(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let wasThere = try await dependencies.registrations.remove(appPassword: try login.token())
    return OCSAnswer(wasThere ? .accepted : .ok)
  }

  /// `POST v3/push`, the draft of 2017, which knew but one proxy.
  func registerAsDrafted(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let hash = try PushParameters.pushTokenHash(call["pushTokenHash"])
    let key = try PushParameters.deviceKey(call["devicePublicKey"])
    return try await register(login, call, hash: hash, key: key, proxy: configuration.defaultProxy())
  }

  /// `DELETE v3/push`, which names the phone's key.
  func unregisterAsDrafted(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let key = try PushParameters.deviceKey(call["devicePublicKey"])
    let token = try login.token()
    guard let registration = try await dependencies.registrations.find(appPassword: token),
      registration.description.deviceKey.strippingWhitespace() == key.strippingWhitespace(),
      try await dependencies.registrations.remove(appPassword: token)
    else { throw OCSAnswer.bad("INVALID_DEVICE_KEY") }
    return OCSAnswer(.accepted)
  }

  private func register(
    _ login: NextcloudLogin, _ call: OCSRequest, hash: String, key: String, proxy: String
  ) async throws -> OCSAnswer {
    let token = try login.token()
    let identity = DeviceIdentity(
      cloudID: DeviceIdentity.cloudID(of: login.user.username, at: configuration.url), appPassword: token)
    let userKey = try await dependencies.keys.key(of: login.user.id)
    let registration = NextcloudRegistration.Description(
      user: login.user.id, appPassword: token, deviceIdentifier: identity.identifier, deviceKey: key,
      pushTokenHash: hash, proxyServer: proxy,
      appKind: dependencies.brand(call.userAgent) ?? .init(userAgent: call.userAgent))
    do {
      let isChanged = try await dependencies.registrations.put(registration)
      return OCSAnswer(
        isChanged ? .created : .ok,
        data: [
          "publicKey": .string(userKey.publicKey.pem), "deviceIdentifier": .string(identity.identifier),
          "signature": .string(identity.signature(by: userKey)),
        ])
    } catch is NextcloudRegistrations.UnknownAppPassword {
      throw OCSAnswer.bad("INVALID_SESSION_TOKEN")
    }
  }
}
