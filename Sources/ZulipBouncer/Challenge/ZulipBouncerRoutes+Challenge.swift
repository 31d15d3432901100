internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import Registrations

extension ZulipBouncerRoutes {
  /// `POST server/register/transfer`: a server that has lost its key gets a secret to show at its
  /// hostname. With `bouncer.verify_hostnames` a new one that may come in gets one, too.
  func transfer(_ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let name = try parameters.required("hostname")
    let hostname = try Hostname(parameter: name)
    guard try await dependencies.servers.find(hostname: hostname) != nil || mayProve(hostname) else {
      throw APIError.notYetRegistered(name)
    }
    return parameters.success([.init("verification_secret", .string(secrets.make(for: hostname)))])
  }

  /// `POST server/register/verify_challenge`: whoever shows the secret at the hostname gets a new
  /// key, and the old one is dead. A new server comes in so, where `bouncer.verify_hostnames` asks for it: it gets
  /// its id and key here, which stock servers save before they register with them. One that was here under another
  /// hostname cannot be told from a new one yet: it brings its realms along with its next upload
  /// (`Documentation/Decisions` 0026).
  func verifyChallenge(_ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let name = try parameters.required("hostname")
    let token = try AccessToken(parameter: try parameters.required("access_token"))
    guard let hostname = try? Hostname(name) else { throw APIError.noRegistration }
    let known = try await dependencies.servers.find(hostname: hostname)
    guard known != nil || mayProve(hostname) else { throw APIError.noRegistration }
    try countChallenge(of: hostname, isKnown: known != nil)
    do {
      let secret = try await hosts.verificationSecret(at: hostname, accessToken: token)
      try secrets.check(secret, for: hostname)
    } catch let failure as HostVerifier.Failure {
      throw APIError(failure)
    } catch VerificationSecrets.Invalid.expired where !dependencies.mayExpire() {
      throw APIError.rateLimited(retryAfter: "60")
    } catch let invalid as VerificationSecrets.Invalid {
      throw APIError(invalid)
    }
    let server = if let known { known } else { try await admit(hostname) }
    guard let key = try await dependencies.servers.rotateKey(server.id, graceForPrevious: false) else {
      throw APIError.noRegistration
    }
    context.logger.notice(
      known == nil ? "server registered by challenge" : "server key transferred",
      metadata: ["server": "\(server.uuid.canonical)"])
    return parameters.success([
      .init("zulip_org_id", .string(server.uuid.canonical)), .init("zulip_org_key", .string(key)),
    ])
  }

  /// Whether whoever shows that a hostname that no server has is its own comes in with it.
  private func mayProve(_ hostname: Hostname) -> Bool {
    configuration.verifyHostnames && mayCreate(hostname)
  }

  private func admit(_ hostname: Hostname) async throws -> RemoteServer {
    do {
      return try await dependencies.servers.add(hostname: hostname, contactEmail: "").server
    } catch RemoteServers.Refusal.hostnameTaken {
      // The same host was let in a moment ago.
      guard let server = try await dependencies.servers.find(hostname: hostname) else {
        throw APIError.noRegistration
      }
      return server
    }
  }

  /// Each challenge makes this program call a host, which may be anybody's. So there is a limit for each host and one
  /// for all. Nobody can use up what others need to get their keys back: a hostname that may not come in is neither
  /// called nor counted, new hosts and registered ones have separate limits, and every limit ends soon.
  private func countChallenge(of hostname: Hostname, isKnown: Bool) throws(APIError) {
    do {
      try challenges.check(hostname.text)
      try allChallenges.check(isKnown)
    } catch {
      throw .tooManyChallenges(contact: configuration.operatorEmail, like: error)
    }
  }
}

/// The name under which a host shows its secret: it becomes part of a path, so it is nothing but
/// letters, digits, `-` and `_`.
struct AccessToken {
  let text: String

  init(parameter text: String) throws(APIError) {
    guard text.isName(1...256, with: "-_") else { throw APIError.invalidFormat("access_token") }
    self.text = text
  }
}
