import Basics
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Sealing

/// Decides who may see the operator's pages: everybody who can reach the listener or, if `admin.token` is
/// set, everybody who sends that token as a bearer token or has signed in with it.
///
/// A session is a cookie that any node with the same database and `storage.key` can verify, also after a restart. It ends
/// after 12 hours, when anybody signs out, or when `admin.token` changes.
struct AdminAccess: Sendable {
  /// In seconds.
  static let lifetime: TimeInterval = 12 * 3600
  private static let cookie = "push-bouncer-admin"
  private static let purpose = StorageKey.Purpose("admin.session")

  /// No valid session or token: the user has to sign in.
  struct SignInNeeded: Error {}

  private let secret: (token: String, bearer: BearerToken)?
  private let storageKey: StorageKey
  private let sessions: AdminSessions
  private let now: @Sendable () -> Date

  init(
    token: String?, bearer: BearerToken?, storageKey: StorageKey, sessions: AdminSessions,
    now: @escaping @Sendable () -> Date
  ) {
    secret = token.flatMap { token in bearer.map { (token, $0) } }
    self.storageKey = storageKey
    self.sessions = sessions
    self.now = now
  }

  /// Throws for a request that may not see the page. Returns whether the request came with a session, which
  /// can be signed out of.
  func admit(_ request: Request, _ context: WireContext) async throws -> Bool {
    guard let secret else {
      try Self.admitLocal(request)
      return false
    }
    if request.headers[.authorization] != nil {
      try secret.bearer.check(request, from: context.clientAddress)
      return false
    }
    guard try await hasSession(request, secret.token) else { throw SignInNeeded() }
    return true
  }

  /// Returns the session cookie if the token is right.
  ///
  /// - Throws: 401, or 429 after many wrong ones.
  func signIn(_ token: String, _ request: Request, _ context: WireContext) async throws -> String {
    guard let secret else { throw SignInNeeded() }
    try secret.bearer.check(token, from: context.clientAddress)
    let end = Int64(now().timeIntervalSince1970 + Self.lifetime)
    let proof = storageKey.hash(
      Self.text(end, secret.token, try await sessions.number), for: Self.purpose)
    return Self.cookie("\(end).\(Base64.encode(proof))", age: Int(Self.lifetime), request)
  }

  /// Ends every session, if the request comes with one. Returns the cookie that makes the browser forget it.
  func signOut(_ request: Request) async throws -> String {
    if let secret, try await hasSession(request, secret.token) { try await sessions.end() }
    return Self.cookie("", age: 0, request)
  }

  /// Whether a form was sent from one of these pages. Browsers set `Origin`, and no other site can forge it.
  static func isOwnForm(_ request: Request) -> Bool {
    guard let origin = request.headers[.origin]?.lowercased(), let authority = request.head.authority,
      !authority.isEmpty
    else { return false }
    if let site = HTTPField.Name("Sec-Fetch-Site").flatMap({ request.headers[$0] }), site != "same-origin" {
      return false
    }
    return ["http", "https"].contains { scheme in
      "\(scheme)://\(authority.lowercased())".utf8.elementsEqual(origin.utf8)
    }
  }

  private func hasSession(_ request: Request, _ token: String) async throws -> Bool {
    let pairs = request.headers[values: .cookie].flatMap {
      $0.utf8.split(separator: UInt8(ascii: ";")).prefix(50)
    }
    let cookies = pairs.compactMap { pair -> (end: Int64, proof: [UInt8])? in
      let pair = String(Substring(pair)).trimmingCharacters(in: .whitespaces)
      guard pair.hasPrefix("\(Self.cookie)=") else { return nil }
      let parts = pair.dropFirst(Self.cookie.count + 1).split(separator: ".", maxSplits: 1)
      guard parts.count == 2, let end = Int64(parts[0]), let proof = Base64.decodeStrictly(String(parts[1]))
      else { return nil }
      return Double(end) > now().timeIntervalSince1970 ? (end, proof) : nil
    }
    if cookies.isEmpty { return false }
    let number = try await sessions.number
    return cookies.contains {
      storageKey.matches(Self.text($0.end, token, number), hash: $0.proof, for: Self.purpose)
    }
  }

  private static func text(_ end: Int64, _ token: String, _ number: [UInt8]) -> String {
    "\(end) \(Base64.encode(number)) \(token)"
  }

  /// Sets `Secure` if the browser's `Origin` is an HTTPS one: a reverse proxy may hide the scheme from this
  /// listener.
  private static func cookie(_ value: String, age: Int, _ request: Request) -> String {
    let isSecure = request.headers[.origin]?.lowercased().hasPrefix("https:") == true
    return
      "\(cookie)=\(value); Path=/admin; Max-Age=\(age); HttpOnly; SameSite=Strict\(isSecure ? "; Secure" : "")"
  }

  /// Admits a request whose host is an address or `localhost`. Without a token, any website could point its
  /// name at this listener and read the answer (DNS rebinding).
  static func admitLocal(_ request: Request) throws {
    let authority = request.head.authority ?? ""
    let host =
      authority.hasPrefix("[")
      ? String(authority.dropFirst().prefix { $0 != "]" }) : String(authority.prefix { $0 != ":" })
    guard
      host.isEmpty || host == "localhost" || host.hasSuffix(".localhost") || ClientAddress(host) != nil
    else {
      throw APIError(
        .forbidden, "Without admin.token this is shown under an address or localhost only: set admin.token")
    }
  }
}
