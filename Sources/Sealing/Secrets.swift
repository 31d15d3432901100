internal import CSodium
internal import Foundation

extension [UInt8] {
  /// Overwrites the bytes, which the compiler cannot optimize away. Does not affect other copies.
  package mutating func wipe() {
    withUnsafeMutableBytes { sodium_memzero($0.baseAddress, $0.count) }
  }
}

#if canImport(Glibc)
  internal import Glibc
#else
  internal import Darwin
#endif

/// The memory of this process, which holds keys and push tokens.
package enum ProcessMemory {
  /// Hides the memory from other processes of the same user and from core dumps. Debuggers of that user can
  /// no longer attach; root's still can.
  ///
  /// - Returns: whether it succeeded.
  package static func hide() -> Bool {
    #if canImport(Glibc)
      let core = __rlimit_resource_t(RLIMIT_CORE.rawValue)
    #else
      let core = RLIMIT_CORE
    #endif
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    let isLimited = setrlimit(core, &none) == 0
    return process_forbid_dumps() == 0 && isLimited
  }
}

/// Random texts for keys and secrets that people copy or put into configuration files.
package enum RandomText {
  package static let alphanumerics = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

  /// `count` letters and digits, chosen uniformly with the system's generator.
  package static func alphanumeric(_ count: Int) -> String {
    String(
      decoding: (0..<count).map { _ in alphanumerics[Int.random(in: 0..<alphanumerics.count)] }, as: UTF8.self
    )
  }
}

/// Standard base64 (RFC 4648 section 4, padded), with a strict and a lenient decoder.
package enum Base64 {
  package static func encode(_ bytes: some Collection<UInt8>) -> String {
    let length = (bytes.count + 2) / 3 * 4
    return Array(bytes).withUnsafeBufferPointer { bytes in
      String(unsafeUninitializedCapacity: length + 1) { text in
        text.withMemoryRebound(to: CChar.self) {
          // libsodium appends a zero byte, for which there is room.
          if let start = $0.baseAddress {
            sodium_bin2base64(start, $0.count, bytes.baseAddress, bytes.count, variant)
          }
        }
        return length
      }
    }
  }

  /// Accepts only the canonical encoding: alphabet, padding and unused bits must be exact.
  package static func decodeStrictly(_ text: String) -> [UInt8]? {
    var text = text
    return text.withUTF8 { text in
      guard text.count % 4 == 0 else { return nil }
      let digits = text.prefix(text.count - text.suffix(2).count { $0 == UInt8(ascii: "=") })
      var isRead = true
      let bytes = [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3) { bytes, count in
        var (bits, held) = (UInt32(0), UInt32(0))
        values.withUnsafeBufferPointer { values in
          for digit in digits {
            let value = values[Int(digit)]
            if value == none { return isRead = false }
            bits = bits << 6 | UInt32(value)
            held += 6
            guard held >= 8 else { continue }
            held -= 8
            bytes[count] = UInt8(truncatingIfNeeded: bits >> held)
            count += 1
          }
          // Unused bits must be 0, so that no two texts decode to the same bytes.
          if bits & (1 << held - 1) != 0 { isRead = false }
        }
      }
      return isRead ? bytes : nil
    }
  }

  /// The value of each byte as a base64 digit.
  private static let values: [UInt8] = {
    var values = [UInt8](repeating: none, count: 256)
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for (value, digit) in digits.utf8.enumerated() { values[Int(digit)] = UInt8(value) }
    return values
  }()
  private static let none = UInt8.max

  private static let variant = sodium_base64_VARIANT_ORIGINAL

  /// Skips characters outside the alphabet, such as line breaks, like Python's `b64decode`.
  static func decodeLeniently(_ text: String) -> [UInt8]? {
    Data(base64Encoded: text, options: .ignoreUnknownCharacters).map { [UInt8]($0) }
  }
}
