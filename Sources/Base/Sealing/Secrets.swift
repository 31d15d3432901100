import CSodium
import Foundation
import Glibc

extension [UInt8] {
  /// Overwrites the bytes in a way that the compiler cannot optimize away. Does not affect other copies.
  package mutating func wipe() {
    withUnsafeMutableBytes { sodium_memzero($0.baseAddress, $0.count) }
  }
}

/// The memory of this process, which holds keys and push tokens.
package enum ProcessMemory {
  /// Hides the memory from other processes of the same user and from core dumps. Debuggers of that user can
  /// no longer attach; root's still can.
  ///
  /// - Returns: whether it succeeded.
  package static func hide() -> Bool {
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    let isLimited = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) == 0
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
  package static func encode(_ bytes: some Collection<UInt8>) -> String { Data(bytes).base64EncodedString() }

  /// Accepts only the canonical encoding: alphabet, padding and unused bits must be exact.
  package static func decodeStrictly(_ text: String) -> [UInt8]? {
    // Foundation ignores unused bits, so the bytes are encoded again and compared.
    guard let bytes = Data(base64Encoded: text), bytes.base64EncodedString() == text else { return nil }
    return [UInt8](bytes)
  }

  /// Skips characters outside the alphabet, such as line breaks, like Python's `b64decode`.
  static func decodeLeniently(_ text: String) -> [UInt8]? {
    Data(base64Encoded: text, options: .ignoreUnknownCharacters).map { [UInt8]($0) }
  }
}
