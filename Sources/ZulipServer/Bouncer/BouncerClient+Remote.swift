public import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1

extension BouncerClient {
  /// Another program's bouncer.
  ///
  /// - Parameters:
  ///   - url: where it is, without a slash at its end.
  ///   - id: `zulip_org_id` there.
  ///   - key: `zulip_org_key` there.
  public static func remote(url: String, id: String, key: String, client: HTTPClient) -> BouncerClient {
    BouncerClient { call in
      var request = HTTPClientRequest(url: "\(url)/api/v1/remotes/\(call.endpoint)")
      request.method = .POST
      request.headers = [
        "Content-Type": call.contentType, "User-Agent": "ZulipServer/\(ZulipServer.version)",
      ]
      request.setBasicAuth(username: id, password: key)
      request.body = .bytes(ByteBuffer(bytes: call.body))
      let response = try await client.execute(request, timeout: .seconds(15))
      return Answer(
        status: Int(response.status.code), body: try await response.body.collect(upTo: 16 << 20))
    }
  }
}
