import Foundation
import NIOCore

/// A listening socket that the test holds, as systemd does, while the service behind it comes and goes.
final class HeldSocket: Sendable {
  let descriptor: CInt
  let port: Int

  init() throws {
    let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    let isListening = try SocketAddress(ipAddress: "127.0.0.1", port: 0).withSockAddr {
      bind(descriptor, $0, socklen_t($1)) == 0 && listen(descriptor, 4096) == 0
    }
    guard isListening else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
    self.descriptor = descriptor
    // A `sockaddr_in` has its port after two bytes.
    var address = [UInt8](repeating: 0, count: 16)
    var size = socklen_t(address.count)
    address.withUnsafeMutableBytes { address in
      _ = getsockname(descriptor, address.assumingMemoryBound(to: sockaddr.self).baseAddress, &size)
    }
    port = Int(address[2]) << 8 | Int(address[3])
  }

  deinit {
    close(descriptor)
  }

  var url: String { "http://127.0.0.1:\(port)" }

  /// Runs the command that follows with this socket, its standard input, passed as systemd passes sockets.
  static func launcher(names: String? = "public") -> [String] {
    let names = names.map { "LISTEN_FDNAMES=\($0) " } ?? ""
    return ["/bin/sh", "-c", #"exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 \#(names)exec "$0" "$@""#]
  }

  /// As the standard input of a process.
  var handle: FileHandle { FileHandle(fileDescriptor: descriptor, closeOnDealloc: false) }
}
