import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHPACK
import NIOHTTP1
import NIOPosix

/// Requests over HTTP/1.1 in clear: for an FCM that is a simulator on this machine. The client is
/// not ours to shut down.
final class ClearTransport: Transport {
  private let client: HTTPClient

  init(client: HTTPClient) {
    self.client = client
  }

  func execute(_ request: ProviderRequest, deadline: NIODeadline) async -> Result<
    ProviderResponse, TransportFailure
  > {
    let authority = request.headers.first(name: ":authority") ?? ""
    let path = request.headers.first(name: ":path") ?? "/"
    var outgoing = HTTPClientRequest(url: "http://\(authority)\(path)")
    outgoing.method = .POST
    for (name, value, _) in request.headers where !name.hasPrefix(":") {
      outgoing.headers.add(name: name, value: value)
    }
    outgoing.body = .bytes(request.body)
    do {
      let (head, body) = try await client.answer(to: outgoing, deadline: deadline)
      let headers = HPACKHeaders(httpHeaders: head.headers)
      return .success(ProviderResponse(status: Int(head.status.code), headers: headers, body: body))
    } catch let error as HTTPClientError where error == .connectTimeout {
      return .failure(.connectFailed)
    } catch let error as HTTPClientError where error == .deadlineExceeded {
      return .failure(.timeout)
    } catch is NIOConnectionError {
      return .failure(.connectFailed)
    } catch let error as IOError where [ECONNREFUSED, EHOSTUNREACH, ENETUNREACH].contains(error.errnoCode) {
      return .failure(.connectFailed)
    } catch is CancellationError {
      return .failure(.cancelled)
    } catch {
      return .failure(NIODeadline.now() >= deadline ? .timeout : .connectionLost)
    }
  }

  func retire(_ connection: ConnectionID) {}

  func shutdown() async {}
}
