import Foundation
import Synchronization

/// The time as the `Date` of an answer has it (RFC 9110 5.6.7), written once a second.
final class HTTPDate: Sendable {
  private let last = Mutex<(second: time_t, text: String)>((-1, ""))

  /// The present one.
  func text() -> String {
    var second = time(nil)
    return last.withLock { last in
      if last.second != second {
        var parts = tm()
        gmtime_r(&second, &parts)
        // The locale is C's, whose names of days and months are the ones of the RFC.
        var buffer = [CChar](repeating: 0, count: 32)
        let length = strftime(&buffer, buffer.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        last = (second, String(decoding: buffer[..<length].map(UInt8.init(bitPattern:)), as: UTF8.self))
      }
      return last.text
    }
  }
}
