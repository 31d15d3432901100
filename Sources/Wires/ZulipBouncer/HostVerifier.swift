import AsyncHTTPClient
import Basics
import Foundation
import HTTP
import HTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Providers
import Registrations
import SQL
import Sealing

/// Fetches the secret that a host shows: `GET https://{host}/api/v1/zulip-services/verify/{token}/`.
///
/// The hostname comes from outside, so the call is restricted against SSRF: the name is resolved first, only
/// public addresses are called, and the connection goes to the address that was checked even if the name
/// resolves differently a moment later; redirects are not followed, and size and time are limited.
struct HostVerifier: Sendable {
  private static let tries = 3
  private static let maximumBytes = 16 * 1024

  private let client: OutgoingClient
  private let timeout: Duration

  /// - Parameters:
  ///   - caFile: a trusted root certificate in addition to the system's.
  ///   - timeout: limit for the whole call.
  init(caFile: String?, allowPrivateAddresses: Bool, timeout: Duration = .seconds(5)) {
    var configuration = HTTPClient.Configuration(tlsConfiguration: .outgoing(caFile: caFile))
    configuration.timeout.connect = TimeAmount(timeout)
    client = OutgoingClient(configuration: configuration) { address in
      allowPrivateAddresses || IPAddress(address)?.isPublic == true
    }
    self.timeout = timeout
  }

  /// Returns the secret that the host shows, or throws the 400 that says why there is none.
  func verificationSecret(at hostname: Hostname, accessToken: AccessToken) async throws(APIError) -> String {
    let url = "https://\(hostname.text)/api/v1/zulip-services/verify/\(accessToken.text)/"
    var request = HTTPClientRequest(url: url)
    request.headers.add(name: "User-Agent", value: "push-bouncer")
    let end = ContinuousClock.now + timeout
    var refusal = APIError(Self.notConnected)
    for _ in 0..<Self.tries {
      do {
        let answer = try await client.execute(
          request, limit: Self.maximumBytes, timeout: max(.zero, end - .now))
        return try Self.secret(status: answer.status, body: answer.body)
      } catch {
        refusal = Self.refusal(error)
        // A refused or interrupted connection may work at once; an answer will not change.
        let isFinal = error is OutgoingClient.HostError || error is LookupsExhausted
        guard refusal.message.hasPrefix(Self.notConnected), !isFinal else { break }
      }
    }
    throw refusal
  }

  private static let notConnected = "Connection error occurred while communicating with the host."
  private static let noSecret = APIError("An error occurred while communicating with the host.")

  private static func secret(status: Int, body: ByteBuffer) throws(APIError) -> String {
    let json = try? JSON.parse(body)
    if status == 400, json?["code"]?.string == "REMOTE_SERVER_VERIFICATION_SECRET_NOT_PREPARED" {
      throw APIError("The host reported it has no verification secret.")
    }
    guard (200..<300).contains(status) else {
      throw APIError("Error response received from the host: \(status)")
    }
    guard let secret = json?["verification_secret"]?.string else { throw noSecret }
    return secret
  }

  /// Stock servers' sentences; behind them, in brackets, why there is no connection.
  private static func refusal(_ error: any Error) -> APIError {
    switch error {
    case let refusal as APIError: refusal
    case let error as HTTPClientError
    where [.deadlineExceeded, .connectTimeout, .readTimeout].contains(error):
      APIError("The request timed out while communicating with the host.")
    case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
      APIError("SSL error occurred while communicating with the host.\(why(error))")
    case is OutgoingClient.HostError, is LookupsExhausted, is NIOConnectionError, is IOError, is ChannelError:
      APIError("\(notConnected)\(why(error))")
    case let error as HTTPClientError where error == .remoteConnectionClosed: APIError(notConnected)
    default: noSecret
    }
  }

  private static func why(_ error: any Error) -> String {
    ConnectionFailure(error).map { " (\($0.rawValue))" } ?? ""
  }
}

/// The name under which a host shows its secret. It becomes part of a path, so it is only letters, digits,
/// `-` and `_`.
struct AccessToken {
  let text: String

  init(parameter text: String) throws(APIError) {
    guard text.isName(1...256, with: "-_") else { throw .invalidFormat("access_token") }
    self.text = text
  }
}

/// A secret that proves for ten seconds that this service was asked about a hostname: the hostname and the
/// time with their keyed hash, in upper-case base16 (RFC 4648 section 8). Nothing is stored.
enum VerificationSecret {
  private static let purpose = StorageKey.Purpose("verification_secret")
  private static let lifetime: TimeInterval = 10
  private static let digits = Array("0123456789ABCDEF".utf8)

  static func make(for hostname: Hostname, _ storageKey: StorageKey, now: Date) -> String {
    let signed = "\(now.milliseconds) \(hostname.text)"
    let bytes = storageKey.hash(signed, for: purpose) + signed.utf8
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  /// Checks the secret that a host shows.
  static func check(
    _ secret: String, for hostname: Hostname, _ storageKey: StorageKey, now: Date, isClockTrusted: Bool
  ) throws(APIError) {
    let nibbles = secret.utf8.compactMap { digits.firstIndex(of: $0) }
    guard nibbles.count == secret.utf8.count, nibbles.count.isMultiple(of: 2) else {
      throw APIError("The verification secret is malformed")
    }
    let bytes = stride(from: 0, to: nibbles.count, by: 2).map { UInt8(nibbles[$0] << 4 | nibbles[$0 + 1]) }
    guard bytes.count > 32, let signed = String(validating: bytes[32...], as: UTF8.self),
      storageKey.matches(signed, hash: Array(bytes[..<32]), for: purpose),
      case let parts = signed.split(separator: " ", maxSplits: 1), parts.count == 2,
      let time = Int64(parts[0])
    else { throw APIError("The verification secret is invalid") }
    // A secret from the future was made while the clock was wrong; it must not stay valid until then.
    guard abs(now.timeIntervalSince(Date(milliseconds: time))) <= lifetime else {
      throw isClockTrusted
        ? APIError("The verification secret has expired") : APIError.rateLimited(retryAfter: "60")
    }
    guard parts[1] == hostname.text else {
      throw APIError("The verification secret is for a different hostname")
    }
  }
}
