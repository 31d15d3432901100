internal import AsyncHTTPClient
internal import Foundation
internal import HTTP
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import Providers
internal import Registrations
internal import Sealing

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

/// Secrets that prove, for ten seconds, that this service was asked about a hostname: the hostname
/// and the time with their keyed hash, in upper-case base16. Nothing is stored.
struct VerificationSecrets: Sendable {
  /// Why a secret proves nothing.
  enum Invalid: Error, Hashable {
    case malformed, invalid, expired, otherHostname
  }

  private static let purpose = StorageKey.Purpose("verification_secret")
  private static let lifetime: TimeInterval = 10

  let storageKey: StorageKey
  let now: @Sendable () -> Date

  /// A secret about a hostname.
  func make(for hostname: Hostname) -> String {
    let signed = "\(now().milliseconds) \(hostname.text)"
    return Base16.encode(storageKey.hash(signed, for: Self.purpose) + signed.utf8)
  }

  /// Checks a secret that a host has shown.
  func check(_ secret: String, for hostname: Hostname) throws(Invalid) {
    guard let bytes = Base16.decode(secret) else { throw .malformed }
    guard bytes.count > 32, let signed = String(validating: bytes[32...], as: UTF8.self),
      storageKey.matches(signed, hash: Array(bytes[..<32]), for: Self.purpose)
    else { throw .invalid }
    let parts = signed.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, let time = Int64(parts[0]) else { throw .invalid }
    // One from the future was made by a clock that was wrong: it must not live until that time.
    guard abs(now().timeIntervalSince(Date(milliseconds: time))) <= Self.lifetime else { throw .expired }
    guard parts[1] == hostname.text else { throw .otherHostname }
  }
}

/// Base16 in upper case (RFC 4648 section 8).
enum Base16 {
  private static let digits = Array("0123456789ABCDEF".utf8)

  static func encode(_ bytes: [UInt8]) -> String {
    String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  static func decode(_ text: String) -> [UInt8]? {
    let nibbles = text.utf8.compactMap { digits.firstIndex(of: $0) }
    guard nibbles.count == text.utf8.count, nibbles.count.isMultiple(of: 2) else { return nil }
    return stride(from: 0, to: nibbles.count, by: 2).map { UInt8(nibbles[$0] << 4 | nibbles[$0 + 1]) }
  }
}
