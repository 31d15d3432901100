import AsyncHTTPClient
import NIOCore
import Timing

extension HTTPClient {
  /// The whole answer, body included, by the deadline (`execute` alone ends its watch with the head).
  func answer(to request: HTTPClientRequest, deadline: NIODeadline) async throws -> (
    HTTPClientResponse, ByteBuffer
  ) {
    let answer = try await withTimeout(Duration(deadline - .now())) {
      let head = try await self.execute(request, deadline: deadline)
      return (head, try await head.body.collect(upTo: ProviderResponse.maximumBody))
    }
    guard let answer else { throw HTTPClientError.deadlineExceeded }
    return answer
  }
}
