import Foundation
import Synchronization

/// A datagram socket on which a service manager listens to its services.
package final class NotifySocket: Sendable {
  /// What fills the queue.
  package static let filling = "FILLING=1"

  private let descriptor: CInt
  private let address: [UInt8]
  private let heard = Mutex<[String]>([])

  /// - Parameter isAbstract: the path is a name in the abstract namespace, which is as long as it is.
  package init(path: String, isAbstract: Bool = false) throws {
    descriptor = socket(
      AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    address =
      withUnsafeBytes(of: sa_family_t(AF_UNIX)) { Array($0) } + Array(path.utf8) + (isAbstract ? [] : [0])
    let isBound = address.withUnsafeBytes { address in
      bind(descriptor, address.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(address.count))
        == 0
    }
    guard isBound else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
  }

  deinit {
    close(descriptor)
  }

  /// Sends to it until its queue is full.
  package func fill() {
    let sender = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(sender) }
    let text = Array(Self.filling.utf8)
    address.withUnsafeBytes { address in
      let name = address.assumingMemoryBound(to: sockaddr.self).baseAddress
      while sendto(sender, text, text.count, CInt(MSG_DONTWAIT), name, socklen_t(address.count)) > 0 {}
    }
  }

  /// Everything that was said, in order.
  package var messages: [String] {
    heard.withLock { heard in
      var buffer = [UInt8](repeating: 0, count: 256)
      while case let count = recv(descriptor, &buffer, buffer.count, 0), count > 0 {
        heard.append(String(decoding: buffer[..<count], as: UTF8.self))
      }
      return heard
    }
  }
}
