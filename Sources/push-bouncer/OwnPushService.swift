import AsyncHTTPClient
import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Operations
import Providers
import Server

/// Calls a push service of the operator's, under the same trust as messages to it.
enum OwnPushService {
  static func ask(_ host: String, _ configuration: Configuration, port: Int = 443) async
    -> Doctor.PushServiceAnswer
  {
    guard let addresses = try? await HostAddresses.resolve(host), !addresses.isEmpty else {
      return .unknownName
    }
    var settings = HTTPClient.Configuration.outgoing(configuration.providers)
    settings.redirectConfiguration = .disallow
    settings.connectionPool.retryConnectionEstablishment = false
    let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
    let answer: Doctor.PushServiceAnswer
    do {
      let name = host.contains(":") ? "[\(host)]" : host
      _ = try await client.execute(
        HTTPClientRequest(url: "https://\(name):\(port)/"), timeout: .seconds(10))
      answer = .answered
    } catch {
      answer = .init(error)
    }
    try? await client.shutdown()
    return answer
  }
}

extension Doctor.PushServiceAnswer {
  fileprivate init(_ error: any Error) {
    switch error {
    case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError: self = .untrusted
    case let error as IOError where error.errnoCode == ECONNREFUSED: self = .closed
    case let error as NIOConnectionError
    where error.connectionErrors.allSatisfy({ ($0.error as? IOError)?.errnoCode == ECONNREFUSED }):
      self = .closed
    default: self = .silent
    }
  }
}
