package import AsyncHTTPClient
package import Foundation
internal import NIOCore
internal import NIOHTTP1

extension BouncerClient {
  /// Another program's bouncer.
  ///
  /// - Parameters:
  ///   - url: where it is; a path is dropped, as stock servers do.
  ///   - id: `zulip_org_id` there.
  ///   - key: `zulip_org_key` there.
  package static func remote(url: URL, id: String, key: String, client: HTTPClient) -> BouncerClient {
    let base = URL(string: "/api/v1/remotes/", relativeTo: url)?.absoluteString ?? ""
    return BouncerClient { call in
      var request = HTTPClientRequest(url: base + call.endpoint)
      request.method = .POST
      request.headers = [
        "Content-Type": call.contentType, "User-Agent": "ZulipServer/\(ZulipServerRoutes.version)",
      ]
      request.setBasicAuth(username: id, password: key)
      request.body = .bytes(ByteBuffer(bytes: call.body))
      let response = try await client.execute(request, timeout: .seconds(15))
      return Answer(
        status: Int(response.status.code), retryAfter: response.headers.first(name: "retry-after"),
        body: try await response.body.collect(upTo: 16 << 20))
    }
  }
}
