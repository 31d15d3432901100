import AsyncHTTPClient
import Foundation
import HTTP
package import HTTPClient
import HTTPTypes
import NIOCore
import NIOHTTP1
import NextcloudProxy
import Providers

extension NextcloudSender {
  /// Posts entries in one request as Nextcloud's servers do (`Documentation/Protocols/Nextcloud.md` 6.1), or
  /// passes them to the proxy in this process.
  func post(_ entries: [String], to proxy: String) async -> ProxyAnswer {
    if proxy == NextcloudRegistration.trimmed(ownAddress()) {
      return await ProxyAnswer(of: own, to: entries)
    }
    let call = ProxyClient.Call(
      url: "\(proxy)/notifications", body: Self.form(entries),
      // The key is sent only to that server.
      subscriptionKey: proxy == NextcloudRegistration.trimmed(settings.subscriptionServer)
        ? settings.subscriptionKey : nil,
      isTrusted: settings.allowsLocalProxies || proxy == NextcloudRegistration.trimmed(standardAddress()))
    do {
      let answer = try await proxies.post(call)
      return ProxyAnswer(status: answer.status, body: answer.body)
    } catch {
      let reason = Reason(ofCall: error)
      // With an answer that is too long the proxy has received the entries, so they are not sent again.
      return [.forbiddenAddress, .unreadableAnswer].contains(reason)
        ? .refused(status: nil, reason) : .unavailable(status: nil, reason)
    }
  }

  /// Encodes `notifications[0]=...&notifications[1]=...` like PHP's `http_build_query`. The characters that
  /// PHP leaves unescaped and this does not (`-`, `_`, `.`) occur in no entry.
  static func form(_ entries: [String]) -> [UInt8] {
    Form.encode(entries.enumerated().map { ("notifications[\($0)]", $1) })
  }
}

/// Calls proxies in other programs.
package struct ProxyClient: Sendable {
  /// A request to a proxy.
  package struct Call: Sendable {
    package let url: String
    /// A form.
    package let body: [UInt8]
    fileprivate let subscriptionKey: String?
    /// Whether the host may have any address.
    fileprivate let isTrusted: Bool
  }

  /// Largest answer that is read, in bytes.
  private static let maximumBytes = 1 << 20

  fileprivate let post: @Sendable (Call) async throws -> OutgoingClient.Response

  /// Makes calls with `post`. An error that it throws means that the proxy cannot be reached.
  package init(post: @escaping @Sendable (Call) async throws -> OutgoingClient.Response) {
    self.post = post
  }

  package init(_ client: OutgoingClient) {
    self.init { call in
      var request = HTTPClientRequest(url: call.url)
      request.method = .POST
      request.headers = [
        "Content-Type": "application/x-www-form-urlencoded",
        "User-Agent": "Nextcloud-Server-Crawler/\(NextcloudServerRoutes.version)",
      ]
      if let key = call.subscriptionKey {
        request.headers.add(name: "X-Nextcloud-Subscription-Key", value: key)
      }
      request.body = .bytes(ByteBuffer(bytes: call.body))
      return try await client.execute(
        request, isTrusted: call.isTrusted, limit: Self.maximumBytes,
        timeout: .seconds(NextcloudSender.timeout))
    }
  }
}

/// A proxy's answer to a request, and what it means (`Documentation/Protocols/Nextcloud.md` 6.5).
enum ProxyAnswer: Sendable, Hashable {
  /// It has accepted the entries, except for `failed` of them, and does not know some phones. The HTTP status
  /// does not matter then. `failed` is nil if the answer has no number there.
  case accepted(status: Int, unknown: Set<String>, failed: Int?)
  /// It has accepted the entries but does not say how many.
  case acceptedWithoutCounts(status: Int)
  /// It will not accept the entries. Without a status it was not asked, or its answer could not be read.
  case refused(status: Int?, Reason? = nil)
  /// It has not accepted the entries but may later. Without a status it gave no answer.
  case unavailable(status: Int?, Reason? = nil)

  init(status: Int, body: ByteBuffer) {
    if status < 500, let json = try? JSON.parse(body), let unknown = json["unknown"],
      let failed = json["failed"]
    {
      let names: [String] = if case .array(let list) = unknown { list.compactMap(\.string) } else { [] }
      self = .accepted(status: status, unknown: Set(names), failed: failed.integer.map { Int(clamping: $0) })
    } else {
      self =
        (200..<300).contains(status) ? .acceptedWithoutCounts(status: status) : ProxyAnswer(refusal: status)
    }
  }

  /// Makes the answer of the proxy in this process, which is called without HTTP.
  init(of proxy: PushProxy, to entries: [String]) async {
    do throws(APIError) {
      let receipt = try await proxy.notify(entries)
      self = .accepted(status: 200, unknown: Set(receipt.unknown), failed: receipt.failed)
    } catch {
      self = ProxyAnswer(refusal: error.status.code)
    }
  }

  private init(refusal status: Int) {
    self = status < 500 ? .refused(status: status) : .unavailable(status: status)
  }

  /// HTTP status, if there was an answer.
  var status: Int? {
    switch self {
    case .accepted(let status, _, _), .acceptedWithoutCounts(let status): status
    case .refused(let status, _), .unavailable(let status, _): status
    }
  }

  /// The reason why there was no answer.
  var reason: Reason? {
    switch self {
    case .accepted, .acceptedWithoutCounts: nil
    case .refused(_, let reason), .unavailable(_, let reason): reason
    }
  }
}
