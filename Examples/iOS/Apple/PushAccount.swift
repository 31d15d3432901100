// In the app's target and in the extension's; both have the capability Keychain Sharing with one group.
import Foundation
import PushBouncerClient
import Security

/// What the app and its extension know, in the keychain, which can be read once the phone was unlocked after its start.
struct PushAccount: Codable {
  /// Your push-bouncer.
  static let gateway = Gateway("https://push.example.org", transport: call)
  /// With your team's id and the group.
  private static var item: [CFString: Any] {
    [kSecClass: kSecClassGenericPassword, kSecAttrAccessGroup: "ABCDE12345.org.example.chat.push"]
  }

  var keys = WebPushKeys()
  var subscription: Subscription?

  /// Nil if there is none. Throws while the keychain is locked: that is not none, for which an app would make new keys.
  static func load() throws -> PushAccount? {
    var found: CFTypeRef?
    let status = SecItemCopyMatching(item.merging([kSecReturnData: true]) { $1 } as CFDictionary, &found)
    if status == errSecItemNotFound { return nil }
    guard let data = found as? Data else { throw NSError(domain: NSOSStatusErrorDomain, code: Int(status)) }
    return try JSONDecoder().decode(PushAccount.self, from: data)
  }

  func save() throws {
    let value: [CFString: Any] = [
      kSecValueData: try JSONEncoder().encode(self),
      kSecAttrAccessible: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
    ]
    var status = SecItemUpdate(Self.item as CFDictionary, value as CFDictionary)
    if status == errSecItemNotFound {
      status = SecItemAdd(Self.item.merging(value) { $1 } as CFDictionary, nil)
    }
    guard status == errSecSuccess else { throw NSError(domain: NSOSStatusErrorDomain, code: Int(status)) }
  }

  static func forget() { SecItemDelete(item as CFDictionary) }

  @Sendable private static func call(_ call: GatewayCall) async throws -> GatewayAnswer {
    guard let url = URL(string: call.url) else { throw URLError(.badURL) }
    // An extension has 30 seconds.
    var request = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalCacheData, timeoutInterval: 20)
    (request.httpMethod, request.httpBody) = (call.method, call.body)
    request.allHTTPHeaderFields = call.headers
    let (bytes, response) = try await URLSession.shared.bytes(for: request, delegate: NoRedirects())
    var body = Data()
    for try await byte in bytes {
      guard body.count < GatewayAnswer.maximumBody else { throw URLError(.dataLengthExceedsMaximum) }
      body.append(byte)
    }
    guard let head = response as? HTTPURLResponse else { throw URLError(.badServerResponse) }
    return GatewayAnswer(
      status: head.statusCode, headers: head.allHeaderFields.map { ("\($0)", "\($1)") }, body: body)
  }
}

/// The subscription's secret goes to the gateway alone.
private final class NoRedirects: NSObject, URLSessionTaskDelegate {
  func urlSession(
    _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
    newRequest request: URLRequest
  ) async -> URLRequest? { nil }
}
