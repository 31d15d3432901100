import AsyncHTTPClient
import HTTP
import NIOHTTP1

/// A chat without push code of its own, as the built-in chat-server side sees it: what it calls at the
/// backend API.
struct HostApplication {
  /// Its realm's UUID.
  let realm: String
  private let backend: JSONService

  /// - Parameters:
  ///   - service: push-bouncer's address.
  ///   - token: `backend.token`
  init(service: String, token: String, realm: String, client: HTTPClient) {
    self.realm = realm
    backend = JSONService(url: "\(service)/backend/v1/realms", credentials: .bearer(token), client: client)
  }

  /// Adds its realm, or makes it as told.
  func putRealm(name: String, url: String) async throws {
    _ = try await backend.call(.PUT, realm, .json(["name": .string(name), "url": .string(url)]))
  }

  /// Adds a user; the key with which its apps sign in.
  func putUser(_ id: Int64, email: String) async throws -> String {
    let user = try await backend.call(.PUT, "\(realm)/users/\(id)", .json(["email": .string(email)]))
    guard let key = user["api_key"]?.string else { throw DemoError("the new user has no API key") }
    return key
  }

  /// Makes an app password for a user.
  func addAppPassword(_ user: Int64, name: String) async throws -> String {
    let answer = try await backend.call(
      .POST, "\(realm)/users/\(user)/app-passwords", .json(["name": .string(name)]))
    guard let password = answer["password"]?.string else {
      throw DemoError("the new app password has no text")
    }
    return password
  }

  /// Lets an app of a user sign in, which waits for it.
  func grantLogin(_ user: Int64, token: String) async throws {
    _ = try await backend.call(.POST, "\(realm)/users/\(user)/login-flows", .json(["token": .string(token)]))
  }

  /// Sends a notification to all of a user's devices; how many each provider took.
  func notify(_ user: Int64, _ plaintext: JSON) async throws -> JSON {
    try await notify(user, parts: ["zulip": plaintext])["zulip"] ?? .null
  }

  /// Sends a notification by every way that there is a part for; what became of each.
  func notify(_ user: Int64, parts: JSON) async throws -> JSON {
    try await backend.call(.POST, "\(realm)/users/\(user)/notifications", .json(parts))
  }
}
