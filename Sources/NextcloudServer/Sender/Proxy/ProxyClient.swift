internal import AsyncHTTPClient
internal import Foundation
internal import HTTP
internal import NIOCore
internal import NIOHTTP1
internal import Providers

/// Posts pushes to proxies as Nextcloud's servers do (`Documentation/Protocols/Nextcloud.md` 6.1).
struct ProxyClient: Sendable {
  /// Larger answers are not read.
  private static let maximumBytes = 1 << 20

  private let client: OutgoingClient
  private let own: NextcloudSender.OwnProxy?
  private let configuration: NextcloudSender.Configuration

  init(
    client: OutgoingClient, own: NextcloudSender.OwnProxy?, configuration: NextcloudSender.Configuration
  ) {
    self.client = client
    self.own = own
    self.configuration = configuration
  }

  /// Posts entries in one request, or hands them to the proxy that is part of this program.
  func post(_ entries: [String], to proxy: String) async -> ProxyAnswer {
    if let own, proxy == NextcloudRegistration.trimmed(own.address()) { return await own.notify(entries) }
    var request = HTTPClientRequest(url: "\(proxy)/notifications")
    request.method = .POST
    request.headers = [
      "Content-Type": "application/x-www-form-urlencoded",
      "User-Agent": "Nextcloud-Server-Crawler/\(NextcloudServerRoutes.version)",
    ]
    if let key = configuration.subscriptionKey, !key.isEmpty,
      proxy == NextcloudRegistration.trimmed(configuration.subscriptionServer)
    {
      request.headers.add(name: "X-Nextcloud-Subscription-Key", value: key)
    }
    request.body = .bytes(ByteBuffer(bytes: Self.form(entries)))
    do {
      let answer = try await client.execute(
        request, isTrusted: isTrusted(proxy), limit: Self.maximumBytes, timeout: configuration.timeout)
      return ProxyAnswer(status: answer.status, body: answer.body)
    } catch OutgoingClient.Refusal.forbiddenAddress, OutgoingClient.Refusal.noHost {
      return .refused(status: nil)
    } catch is NIOTooManyBytesError {
      // It has the entries, whatever else it wants to say.
      return .refused(status: nil)
    } catch {
      return .unavailable(status: nil)
    }
  }

  /// `notifications[0]=...&notifications[1]=...`, as PHP's `http_build_query` writes it: what that leaves as
  /// it is and this does not (`-`, `_`, `.`) is in no entry.
  static func form(_ entries: [String]) -> [UInt8] {
    Form.encode(entries.enumerated().map { ("notifications[\($0)]", $1) })
  }

  /// Whether the operator has named the proxy, or lets phones name any.
  private func isTrusted(_ proxy: String) -> Bool {
    configuration.allowsLocalProxies || proxy == NextcloudRegistration.trimmed(configuration.defaultProxy())
  }
}

/// What a proxy says to a request, and what it means (`Documentation/Protocols/Nextcloud.md` 6.5).
package enum ProxyAnswer: Sendable, Hashable {
  /// It has taken the entries, but for `failed` of them, and does not know some phones. HTTP's status does
  /// not matter then. `failed` is nil where it is no number.
  case taken(status: Int, unknown: Set<String>, failed: Int?)
  /// It has taken them and tells no more.
  case silent(status: Int)
  /// It will not take them; nil where it was not even asked.
  case refused(status: Int?)
  /// It has not taken them, but may later; nil where it gave no answer.
  case unavailable(status: Int?)

  /// An answer by its parts.
  init(status: Int, body: ByteBuffer) {
    if status < 500, let json = try? JSON.parse(body), let unknown = json["unknown"],
      let failed = json["failed"]
    {
      let names: [String] = if case .array(let list) = unknown { list.compactMap(\.string) } else { [] }
      self = .taken(
        status: status, unknown: Set(names), failed: failed.integer.map { Int(clamping: $0) })
    } else {
      self = (200..<300).contains(status) ? .silent(status: status) : ProxyAnswer(refusal: status)
    }
  }

  /// An answer that is no success.
  package init(refusal status: Int) {
    self = status < 500 ? .refused(status: status) : .unavailable(status: status)
  }

  /// HTTP's status, if there was an answer.
  var status: Int? {
    switch self {
    case .taken(let status, _, _), .silent(let status): status
    case .refused(let status), .unavailable(let status): status
    }
  }
}
