import Foundation
import HTTP
import HTTPTypes
import NextcloudProxy
import Registrations
import Sealing

extension NextcloudServerRoutes {
  /// `POST v2/push`: registers a phone for the user's pushes, by way of the proxy it names
  /// (`Documentation/Protocols/Nextcloud.md` 5.3).
  func register(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let hash = try PushParameters.pushTokenHash(call["pushTokenHash"])
    let key = try PushParameters.deviceKey(call["devicePublicKey"])
    let proxy = try PushParameters.proxyServer(
      call["proxyServer"], allowsLocal: sender.settings.allowsLocalProxies)
    return try await register(login, call, hash: hash, key: key, proxy: proxy)
  }

  /// `DELETE v2/push`: removes the registration of the phone signed in with this app password.
  func unregister(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let wasThere = try await sender.registrations.remove(appPassword: try login.token())
    return OCSAnswer(wasThere ? .accepted : .ok)
  }

  /// `POST v3/push`, of the 2017 draft, which had only one proxy.
  func registerAsDrafted(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let hash = try PushParameters.pushTokenHash(call["pushTokenHash"])
    let key = try PushParameters.deviceKey(call["devicePublicKey"])
    return try await register(login, call, hash: hash, key: key, proxy: sender.standardAddress())
  }

  /// `DELETE v3/push`, which identifies the phone by its key.
  func unregisterAsDrafted(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let key = try PushParameters.deviceKey(call["devicePublicKey"])
    let token = try login.token()
    guard let registration = try await sender.registrations.find(appPassword: token),
      registration.description.deviceKey.strippingWhitespace() == key.strippingWhitespace(),
      try await sender.registrations.remove(appPassword: token)
    else { throw OCSAnswer.bad("INVALID_DEVICE_KEY") }
    return OCSAnswer(.accepted)
  }

  private func register(
    _ login: NextcloudLogin, _ call: OCSRequest, hash: String, key: String, proxy: String
  ) async throws -> OCSAnswer {
    let token = try login.token()
    let identity = DeviceIdentity(
      cloudID: DeviceIdentity.cloudID(of: login.user.username, at: sender.settings.url ?? settings.url),
      appPassword: token)
    let userKey = try await sender.keys.key(of: login.user.id)
    let registration = NextcloudRegistration.Description(
      user: login.user.id, appPassword: token, deviceIdentifier: identity.identifier, deviceKey: key,
      pushTokenHash: hash, proxyServer: proxy,
      appKind: kind(of: call))
    do {
      let isChanged = try await sender.registrations.put(registration)
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

extension NextcloudServerRoutes {
  /// The kind of the calling app: the operator's own apps first, then the official ones.
  func kind(of call: OCSRequest) -> NextcloudApp.Kind {
    apps.ownKind(of: call.userAgent) ?? NextcloudApp.Kind(userAgent: call.userAgent)
  }
}

extension NextcloudApp.Kind {
  /// Recognizes the official apps by their `User-Agent`; rebranded ones are unknown.
  init(userAgent: String) {
    func begins(with agents: String...) -> Bool {
      agents.contains { userAgent.utf8.starts(with: "Mozilla/5.0 (\($0)".utf8) }
    }
    if begins(with: "Android) Nextcloud-Talk v", "iOS) Nextcloud-Talk v") {
      self = .talk
    } else if begins(
      with: "Android) ownCloud-android/", "Android) Nextcloud-android/", "iOS) ownCloud-iOS/",
      "iOS) Nextcloud-iOS/")
    {
      self = .files
    } else {
      self = .other
    }
  }
}

/// The parameters of a phone's registration, in the order in which they are checked
/// (`Documentation/Protocols/Nextcloud.md` 5.3).
enum PushParameters {
  /// Checks for SHA-512 in lower-case hex, without white space.
  static func pushTokenHash(_ text: String) throws(OCSAnswer) -> String {
    let isHash =
      text.utf8.count == 128
      && text.utf8.allSatisfy { isxdigit(Int32($0)) != 0 && isupper(Int32($0)) == 0 }
    guard isHash else { throw .bad("INVALID_PUSHTOKEN_HASH") }
    return text
  }

  /// Checks for an RSA-2048 public key in PEM, with or without a final newline. Like Nextcloud, it checks
  /// only the form; the registration of an invalid key is removed when the first push cannot be encrypted.
  static func deviceKey(_ text: String) throws(OCSAnswer) -> String {
    let bytes = text.utf8
    let body = bytes.dropFirst(begin.utf8.count).prefix(425 - begin.utf8.count)
    guard text.utf8.starts(with: begin.utf8),
      body.allSatisfy({ $0 == UInt8(ascii: "\n") || (0x20...0x7e).contains($0) }),
      bytes.dropFirst(425).elementsEqual(end.utf8) || bytes.dropFirst(425).elementsEqual("\(end)\n".utf8)
    else { throw .bad("INVALID_DEVICE_KEY") }
    return text
  }

  /// Checks the proxy's URL and returns it unchanged.
  static func proxyServer(_ text: String, allowsLocal: Bool) throws(OCSAnswer) -> String {
    guard ProxyAddress.isValid(text, allowsLocal: allowsLocal) else { throw .bad("INVALID_PROXY_SERVER") }
    return text
  }

  private static let begin = "-----BEGIN PUBLIC KEY-----\n"
  private static let end = "\n-----END PUBLIC KEY-----"
}

extension NextcloudLogin {
  /// The app password's id; only a phone that has one can register.
  func token() throws(OCSAnswer) -> Int64 {
    guard let appPassword else { throw .bad("INVALID_SESSION_TOKEN") }
    return appPassword
  }
}
