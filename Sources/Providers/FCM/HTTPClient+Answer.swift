import AsyncHTTPClient
import NIOCore

extension HTTPClient {
  /// The whole answer, body included, by the deadline (`execute` alone ends its watch with the head).
  func answer(to request: HTTPClientRequest, deadline: NIODeadline) async throws -> (
    HTTPClientResponse, ByteBuffer
  ) {
    try await withThrowingTaskGroup(of: (HTTPClientResponse, ByteBuffer).self) { group in
      group.addTask {
        let head = try await self.execute(request, deadline: deadline)
        return (head, try await head.body.collect(upTo: ProviderResponse.maximumBody))
      }
      group.addTask {
        try await _Concurrency.Task.sleep(for: .nanoseconds((deadline - .now()).nanoseconds))
        throw HTTPClientError.deadlineExceeded
      }
      defer { group.cancelAll() }
      guard let answer = try await group.next() else { throw HTTPClientError.cancelled }
      return answer
    }
  }
}
