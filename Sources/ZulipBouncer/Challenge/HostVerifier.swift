internal import AsyncHTTPClient
internal import Foundation
internal import HTTP
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import Providers
internal import Registrations

/// Asks a host for the secret that it shows: `GET https://{host}/api/v1/zulip-services/verify/{token}/`.
///
/// The host's name comes from outside, so the call is a small one: the name is resolved first, only
/// public addresses are called, and the connection goes to the address that was checked, not to what
/// the name may mean a moment later; no redirect is followed, little is read, and soon enough it is over.
struct HostVerifier: Sendable {
  /// Why there is no secret.
  enum Failure: Error, Hashable {
    /// The host says that it shows none.
    case notPrepared
    /// The host answered with an error.
    case status(Int)
    /// The certificate is not the host's, or TLS failed otherwise.
    case tls
    /// No connection, or none that is allowed.
    case connection
    /// No answer in time.
    case timeout
    /// An answer that says nothing.
    case other
  }

  private static let tries = 3
  private static let maximumBytes = 16 * 1024

  private let client: OutgoingClient
  private let timeout: Duration

  /// - Parameters:
  ///   - caFile: a trust root besides the system's.
  ///   - timeout: how long it may take in all.
  init(caFile: String?, allowPrivateAddresses: Bool, timeout: Duration = .seconds(5)) {
    var configuration = HTTPClient.Configuration(tlsConfiguration: .outgoing(caFile: caFile))
    configuration.timeout.connect = TimeAmount(timeout)
    client = OutgoingClient(configuration: configuration) { address in
      allowPrivateAddresses || IPAddress(address)?.isPublic == true
    }
    self.timeout = timeout
  }

  /// The secret as the host shows it.
  func verificationSecret(at hostname: Hostname, accessToken: AccessToken) async throws(Failure) -> String {
    let url = "https://\(hostname.text)/api/v1/zulip-services/verify/\(accessToken.text)/"
    var request = HTTPClientRequest(url: url)
    request.headers.add(name: "User-Agent", value: "push-bouncer")
    let end = ContinuousClock.now + timeout
    var failure = Failure.connection
    for _ in 0..<Self.tries {
      do {
        let answer = try await client.execute(
          request, limit: Self.maximumBytes, timeout: max(.zero, end - .now))
        return try Self.secret(status: answer.status, body: answer.body)
      } catch {
        failure = Failure(error)
        // What was refused or cut off may work at once; what was answered will not change.
        guard failure == .connection, !(error is OutgoingClient.Refusal), !(error is LookupsExhausted) else {
          break
        }
      }
    }
    throw failure
  }

  private static func secret(status: Int, body: ByteBuffer) throws(Failure) -> String {
    let json = try? JSON.parse(body)
    if status == 400, json?["code"]?.string == "REMOTE_SERVER_VERIFICATION_SECRET_NOT_PREPARED" {
      throw .notPrepared
    }
    guard (200..<300).contains(status) else { throw .status(status) }
    guard let secret = json?["verification_secret"]?.string else { throw .other }
    return secret
  }
}

extension HostVerifier.Failure {
  fileprivate init(_ error: any Error) {
    switch error {
    case let failure as HostVerifier.Failure:
      self = failure
    case is OutgoingClient.Refusal, is LookupsExhausted:
      self = .connection
    case let error as HTTPClientError
    where [.deadlineExceeded, .connectTimeout, .readTimeout].contains(error):
      self = .timeout
    case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
      self = .tls
    case is NIOConnectionError, is IOError, is ChannelError:
      self = .connection
    case let error as HTTPClientError where error == .remoteConnectionClosed:
      self = .connection
    default:
      self = .other
    }
  }
}
