internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import Registrations
internal import Wire

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

  let caFile: String?
  let allowPrivateAddresses: Bool
  /// How long it may take in all, save that the system's resolver has limits of its own.
  var timeout = Duration.seconds(5)

  /// The secret as the host shows it.
  func verificationSecret(at hostname: Hostname, accessToken: AccessToken) async throws(Failure) -> String {
    // Two results: the answer's, or that of the time that ran out.
    let result = await withTaskGroup(of: Result<String, Failure>.self) { group in
      group.addTask { await self.call(hostname, accessToken) }
      group.addTask {
        try? await Task.sleep(for: self.timeout)
        return .failure(.timeout)
      }
      defer { group.cancelAll() }
      return await group.next() ?? .failure(.other)
    }
    return try result.get()
  }

  private func call(_ hostname: Hostname, _ accessToken: AccessToken) async -> Result<String, Failure> {
    guard let address = await address(of: hostname.host) else { return .failure(.connection) }
    let client = HTTPClient(configuration: clientConfiguration(connecting: hostname.host, to: address))
    let result: Result<String, Failure>
    do throws(Failure) {
      result = .success(try await ask(hostname, accessToken, client))
    } catch {
      result = .failure(error)
    }
    // A host that does not answer may not say goodbye either: nobody waits for that.
    Task { try? await client.shutdown() }
    return result
  }

  private func ask(
    _ hostname: Hostname, _ accessToken: AccessToken, _ client: HTTPClient
  ) async throws(Failure) -> String {
    var request = HTTPClientRequest(
      url: "https://\(hostname.text)/api/v1/zulip-services/verify/\(accessToken.text)/")
    request.headers.add(name: "User-Agent", value: "push-bouncer")
    var failure = Failure.connection
    for _ in 0..<Self.tries {
      do {
        let response = try await client.execute(request, timeout: TimeAmount(timeout))
        let body = try await response.body.collect(upTo: Self.maximumBytes)
        return try Self.secret(status: Int(response.status.code), body: body)
      } catch {
        failure = Failure(error)
        // What was refused or cut off may work at once; what was answered will not change.
        guard failure == .connection else { break }
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

  private func clientConfiguration(connecting host: String, to address: String) -> HTTPClient.Configuration {
    var tls = TLSConfiguration.makeClientConfiguration()
    if let caFile { tls.additionalTrustRoots = [.file(caFile)] }
    var configuration = HTTPClient.Configuration(tlsConfiguration: tls, redirectConfiguration: .disallow)
    configuration.dnsOverride = [host: address]
    configuration.httpVersion = .http1Only
    configuration.timeout.connect = TimeAmount(timeout)
    configuration.connectionPool.retryConnectionEstablishment = false
    return configuration
  }

  /// An address of the host that may be called, if it has one.
  private func address(of host: String) async -> String? {
    let addresses: [String]
    if IPAddress(host) != nil {
      addresses = [host]
    } else {
      addresses = (try? await NIOThreadPool.singleton.runIfActive { Self.resolve(host) }) ?? []
    }
    // One private address spoils a name: a public host has none.
    guard let first = addresses.first,
      allowPrivateAddresses || addresses.allSatisfy({ IPAddress($0)?.isPublic == true })
    else { return nil }
    return first
  }

  /// Every address of a name. Blocks, so it runs on a thread of the pool.
  private static func resolve(_ host: String) -> [String] {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, nil, &hints, &list) == 0 else { return [] }
    defer { freeaddrinfo(list) }
    return sequence(first: list, next: { $0?.pointee.ai_next }).compactMap { entry in
      guard let entry else { return nil }
      var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
      let status = getnameinfo(
        entry.pointee.ai_addr, entry.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
      guard status == 0 else { return nil }
      return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
  }
}

extension HostVerifier.Failure {
  fileprivate init(_ error: any Error) {
    switch error {
    case let failure as HostVerifier.Failure:
      self = failure
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
