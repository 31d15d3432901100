import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHPACK
import NIOHTTP1
import NIOPosix
import Synchronization

/// Requests over HTTP/1.1 in clear: `fcm.endpoint` may be an `http` URL, as simulators of FCM that are not ours speak no
/// TLS. The client is not ours to shut down.
final class ClearTransport: Transport {
  private let client: HTTPClient
  private let limits: PoolLimits
  private let open = Mutex<(pendingRequests: [ObjectIdentifier: PendingRequest], isClosing: Bool)>(
    ([:], false))

  init(client: HTTPClient, limits: PoolLimits = .init()) {
    self.client = client
    self.limits = limits
  }

  func send(_ request: ProviderRequest, deadline: NIODeadline) async -> Awaited<
    Result<ProviderResponse, TransportFailure>
  > {
    let pending = PendingRequest(request)
    let refusal = open.withLock { open -> TransportFailure? in
      guard !open.isClosing else { return .shuttingDown }
      guard open.pendingRequests.count < limits.underWay else { return .overloaded }
      open.pendingRequests[ObjectIdentifier(pending)] = pending
      return nil
    }
    if let refusal { return .ended(.failure(refusal)) }
    // The client does not tell what it has handed over.
    _ = pending.begin(at: nil)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard pending.attach(continuation) else { return }
        Task { end(pending, await execute(request, deadline: deadline + limits.answerTimeout)) }
        MultiThreadedEventLoopGroup.singleton.any().scheduleTask(deadline: deadline) { _ = pending.leave() }
      }
    } onCancel: {
      _ = pending.leave()
    }
  }

  private func end(_ pending: PendingRequest, _ ending: Result<ProviderResponse, TransportFailure>) {
    open.withLock { open in _ = open.pendingRequests.removeValue(forKey: ObjectIdentifier(pending)) }
    pending.end(ending)
  }

  private func execute(_ request: ProviderRequest, deadline: NIODeadline) async -> Result<
    ProviderResponse, TransportFailure
  > {
    let authority = request.headers.first(name: ":authority") ?? ""
    let path = request.headers.first(name: ":path") ?? "/"
    var outgoing = HTTPClientRequest(url: "http://\(authority)\(path)")
    outgoing.method = .POST
    for (name, value, _) in request.headers where !name.hasPrefix(":") {
      outgoing.headers.add(name: name, value: value)
    }
    outgoing.body = .bytes(request.body())
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

  func renew(through newest: ConnectionID?) {}

  func shutdown(deadline: NIODeadline?) async {
    open.withLock { $0.isClosing = true }
    while deadline.map({ .now() < $0 }) ?? true, open.withLock({ !$0.pendingRequests.isEmpty }) {
      try? await Task.sleep(for: .milliseconds(20))
    }
    for pending in open.withLock({ Array($0.pendingRequests.values) }) { end(pending, .failure(.abandoned)) }
  }
}
