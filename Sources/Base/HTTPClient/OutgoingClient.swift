package import AsyncHTTPClient
import Basics
import Foundation
package import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// Calls hosts whose names come from outside. Resolves the name first, calls only allowed addresses, and
/// connects to the address that was checked, even if the name changes meanwhile. Follows no redirects and
/// limits the body.
///
/// AsyncHTTPClient binds a name to an address for a whole client, so there is one client per pair of name and
/// address. When there are too many, the least recently used are closed.
///
/// Of several addresses of a name it calls the first one that takes a connection (``AddressRace``).
package final class OutgoingClient: Sendable {
  /// The reason for which a host is not called.
  package enum HostError: Error, Hashable {
    /// The URL has no host.
    case noHost
    /// The name has no address.
    case unknownHost
    /// The host has an address that must not be called.
    case forbiddenAddress
  }

  package struct Response: Sendable {
    package let status: Int
    package let body: ByteBuffer

    package init(status: Int, body: ByteBuffer) {
      self.status = status
      self.body = body
    }
  }

  private struct Pinned {
    let client: HTTPClient
    /// Whether its last call was answered.
    var hasAnswered = false
    var users: Int
    var lastUsed: ContinuousClock.Instant
  }

  private struct State {
    /// By host and address. The client for hosts that the operator trusts is bound to no address.
    var pinned: [String: Pinned] = [:]
    var isClosed = false

    /// Removes the least recently used idle clients until `maximum` remain.
    mutating func removeIdle(beyond maximum: Int) -> [HTTPClient] {
      guard pinned.count > maximum else { return [] }
      let idle = pinned.filter { $0.value.users == 0 }.sorted { $0.value.lastUsed < $1.value.lastUsed }
      return idle.prefix(pinned.count - maximum).compactMap { pinned.removeValue(forKey: $0.key)?.client }
    }
  }

  private static let maximumIdle = 32
  /// How long an address is called without another race. AsyncHTTPClient keeps an idle connection as long.
  private static let memory = Duration.seconds(60)

  private let configuration: HTTPClient.Configuration
  private let isAllowed: @Sendable (String) -> Bool
  private let resolve: @Sendable (String) async throws -> [String]
  private let state = Mutex(State())

  /// - Parameters:
  ///   - configuration: trust and proxy; redirects and pooling are overridden.
  ///   - isAllowed: whether an address, dotted decimal or IPv6, may be called.
  package convenience init(
    configuration: HTTPClient.Configuration, isAllowed: @escaping @Sendable (String) -> Bool
  ) {
    self.init(configuration: configuration, resolve: HostAddresses.resolve, isAllowed: isAllowed)
  }

  init(
    configuration: HTTPClient.Configuration, resolve: @escaping @Sendable (String) async throws -> [String],
    isAllowed: @escaping @Sendable (String) -> Bool
  ) {
    var configuration = configuration
    configuration.redirectConfiguration = .disallow
    configuration.guardConnections()
    configuration.connectionPool.retryConnectionEstablishment = false
    self.configuration = configuration
    self.isAllowed = isAllowed
    self.resolve = resolve
  }

  deinit {
    for client in state.withLock({ $0.pinned.values.map(\.client) }) {
      Task.detached { try? await client.shutdown() }
    }
  }

  /// Makes a call.
  ///
  /// - Parameters:
  ///   - isTrusted: whether the operator trusts the host, which may then have any address.
  ///   - limit: bytes of the body; a longer body is an error.
  ///   - timeout: for the whole call.
  /// - Throws: ``HostError``, ``LookupsExhausted``, `HTTPClientError.deadlineExceeded`, or the connection's
  ///   error.
  package func execute(
    _ request: HTTPClientRequest, isTrusted: Bool = false, limit: Int, timeout: Duration
  ) async throws -> Response {
    let response = try await withTimeout(timeout) {
      try await self.call(request, isTrusted: isTrusted, limit: limit)
    }
    guard let response else { throw HTTPClientError.deadlineExceeded }
    return response
  }

  /// Ends every connection; calls under way fail.
  package func shutdown() async {
    let clients = state.withLock { state in
      state.isClosed = true
      defer { state.pinned = [:] }
      return state.pinned.values.map(\.client)
    }
    for client in clients { try? await client.shutdown() }
  }

  private func call(_ request: HTTPClientRequest, isTrusted: Bool, limit: Int) async throws -> Response {
    guard !isTrusted else { return try await call(request, boundTo: [:], limit: limit) }
    guard let host = URL(string: request.url)?.host(percentEncoded: false) else { throw HostError.noHost }
    let addresses = try await resolve(host.trimmingCharacters(in: ["[", "]"]))
    var callable = try HostAddresses.callable(addresses, where: isAllowed)
    if callable.count > 1, configuration.proxy == nil {
      if let known = known(callable, of: host) {
        do {
          return try await call(request, boundTo: [host: known], limit: limit)
        } catch  where Self.isUnanswered(error) {}
      }
      callable = [try await reachable(callable, port: Self.port(of: request.url))]
    }
    var failure: any Error = HostError.unknownHost
    for address in callable {
      do {
        return try await call(request, boundTo: [host: address], limit: limit)
      } catch  where Self.isUnanswered(error) {
        // Nothing was sent, so the proxy may reach the next address.
        failure = error
      }
    }
    throw failure
  }

  /// The one of these addresses that answered lately.
  private func known(_ addresses: [String], of host: String) -> String? {
    state.withLock { state in
      addresses.first { address in
        guard let pinned = state.pinned["\(host) \(address)"], pinned.hasAnswered else { return false }
        return pinned.users > 0 || pinned.lastUsed.duration(to: .now) < Self.memory
      }
    }
  }

  /// The first of these addresses that takes a connection. It is closed, as AsyncHTTPClient opens its own.
  private func reachable(_ addresses: [String], port: Int) async throws -> String {
    let limit = configuration.timeout.connect ?? .seconds(10)
    let (address, channel) = try await AddressRace<any Channel>.run(addresses) { address in
      try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connectTimeout(limit)
        .connect(to: SocketAddress(ipAddress: address, port: port)).get()
    } close: { channel in
      channel.close(promise: nil)
    }
    channel.close(promise: nil)
    return address
  }

  private static func port(of url: String) -> Int {
    let url = URL(string: url)
    return url?.port ?? (url?.scheme?.lowercased() == "http" ? 80 : 443)
  }

  private func call(
    _ request: HTTPClientRequest, boundTo override: [String: String], limit: Int
  ) async throws -> Response {
    let key = override.map { "\($0) \($1)" }.first ?? ""
    let client = try checkOut(key, override)
    var hasAnswered = false
    defer { checkIn(key, hasAnswered: hasAnswered) }
    // The caller's timeout cancels this task, and with it the request.
    let response = try await client.execute(request, deadline: .distantFuture)
    hasAnswered = true
    return Response(
      status: Int(response.status.code), body: try await response.body.collect(upTo: limit))
  }

  /// Whether the error means that no connection was made.
  private static func isUnanswered(_ error: any Error) -> Bool {
    // To a bound address the system's own error, and none of SwiftNIO's, says that it cannot be reached.
    let unreachable = [ECONNREFUSED, ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, EAFNOSUPPORT]
    return error is NIOConnectionError || (error as? HTTPClientError) == .connectTimeout
      || (error as? IOError).map { unreachable.contains($0.errnoCode) } == true
  }

  private func checkOut(_ key: String, _ override: [String: String]) throws -> HTTPClient {
    let (client, idle) = try state.withLock { state in
      guard !state.isClosed else { throw HTTPClientError.alreadyShutdown }
      var pinned = state.pinned[key] ?? Pinned(client: make(override), users: 0, lastUsed: .now)
      pinned.users += 1
      state.pinned[key] = pinned
      return (pinned.client, state.removeIdle(beyond: Self.maximumIdle))
    }
    // Runs in the background: a host that does not answer may not close its connection either.
    for client in idle { Task { try? await client.shutdown() } }
    return client
  }

  private func checkIn(_ key: String, hasAnswered: Bool) {
    state.withLock { state in
      state.pinned[key]?.hasAnswered = hasAnswered
      state.pinned[key]?.users -= 1
      state.pinned[key]?.lastUsed = .now
    }
  }

  private func make(_ override: [String: String]) -> HTTPClient {
    var configuration = configuration
    configuration.dnsOverride = override
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }
}
