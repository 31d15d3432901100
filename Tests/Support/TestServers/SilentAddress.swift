import Foundation
import NIOCore
import Testing

/// An address of this machine whose port swallows connections, as a firewall does that drops packets: nobody takes
/// them, and the kernel's queue is full.
package final class SilentAddress {
  private var sockets: [CInt] = []

  package init(_ address: String, port: Int) throws {
    var place = sockaddr_in()
    place.sin_family = sa_family_t(AF_INET)
    place.sin_port = in_port_t(port).bigEndian
    #expect(inet_pton(AF_INET, address, &place.sin_addr) == 1)
    let listener = open()
    #expect(withAddress(&place) { bind(listener, $0, $1) } == 0 && listen(listener, 0) == 0)
    for _ in 0..<4 { _ = withAddress(&place) { connect(open(), $0, $1) } }
  }

  deinit {
    for socket in sockets { close(socket) }
  }

  private func open() -> CInt {
    let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
    sockets.append(descriptor)
    return descriptor
  }

  private func withAddress(
    _ place: inout sockaddr_in, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt
  ) -> CInt {
    withUnsafePointer(to: &place) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }
}
