import Foundation
import NIOCore

/// Where a listener listens: on a socket that was passed, or on one of its own.
struct ListenerAddress {
  let host: String
  let port: Int
  /// The settings that say so, for an error's text.
  let keys: String
  /// A listening socket that was passed to this process and that others keep open.
  var passed: CInt?

  /// The descriptor of a listening socket.
  func open() throws(ListenFailure) -> CInt {
    if let passed { return passed }
    do {
      return try SocketAddress.makeAddressResolvingHost(host, port: port).listen()
    } catch let error as IOError {
      throw ListenFailure(description: "\(keys): cannot listen there: \(error.localizedDescription)")
    } catch {
      throw ListenFailure(description: "\(keys): there is no address of \(host)")
    }
  }
}

/// A listener could not be put where the configuration wants it.
struct ListenFailure: Error, CustomStringConvertible {
  let description: String
}

extension SocketAddress {
  /// A socket of our own that listens there.
  fileprivate func listen() throws(IOError) -> CInt {
    let kind = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(self.protocol.rawValue, kind, 0)
    guard descriptor >= 0 else { throw IOError(errnoCode: errno, reason: "socket") }
    var reuse: CInt = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, socklen_t(MemoryLayout<CInt>.size))
    let isBound = withSockAddr { bind(descriptor, $0, socklen_t($1)) == 0 }
    guard isBound, Foundation.listen(descriptor, Self.backlog) == 0 else {
      let error = IOError(errnoCode: errno, reason: "bind")
      close(descriptor)
      throw error
    }
    return descriptor
  }

  /// Connections that may wait to be taken.
  private static let backlog: CInt = 1024
}
