import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHPACK
import NIOHTTP1
import NIOPosix
import Synchronization

/// Requests over HTTP/1.1 in clear: for an FCM that is a simulator on this machine. The client is
/// not ours to shut down.
final class ClearTransport: Transport {
  private let client: HTTPClient
  private let limits: PoolLimits
  private let open = Mutex<(exchanges: [ObjectIdentifier: Exchange], isClosing: Bool)>(([:], false))

  init(client: HTTPClient, limits: PoolLimits = .init()) {
    self.client = client
    self.limits = limits
  }

  func send(_ request: ProviderRequest, deadline: NIODeadline) async -> Attempt<Exchange.Ending> {
    let exchange = Exchange(request)
    let refusal = open.withLock { open -> TransportFailure? in
      guard !open.isClosing else { return .shuttingDown }
      guard open.exchanges.count < limits.underWay else { return .overloaded }
      open.exchanges[ObjectIdentifier(exchange)] = exchange
      return nil
    }
    if let refusal { return .ended(.failure(refusal)) }
    // The client does not tell what it has handed over.
    _ = exchange.begin(at: nil)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard exchange.attach(continuation) else { return }
        Task { end(exchange, await execute(request, deadline: deadline + limits.patience)) }
        MultiThreadedEventLoopGroup.singleton.any().scheduleTask(deadline: deadline) { _ = exchange.leave() }
      }
    } onCancel: {
      _ = exchange.leave()
    }
  }

  private func end(_ exchange: Exchange, _ ending: Exchange.Ending) {
    open.withLock { open in _ = open.exchanges.removeValue(forKey: ObjectIdentifier(exchange)) }
    exchange.end(ending)
  }

  private func execute(_ request: ProviderRequest, deadline: NIODeadline) async -> Exchange.Ending {
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

  func renew(through newest: ConnectionID?) {}

  func shutdown(deadline: NIODeadline?) async {
    open.withLock { $0.isClosing = true }
    while deadline.map({ .now() < $0 }) ?? true, open.withLock({ !$0.exchanges.isEmpty }) {
      try? await Task.sleep(for: .milliseconds(20))
    }
    for exchange in open.withLock({ Array($0.exchanges.values) }) { end(exchange, .failure(.abandoned)) }
  }
}
