internal import CryptoExtras

/// How a plaintext is padded before RSA encryption (RFC 8017).
package enum RSAPadding: Sendable, Hashable {
  /// RSAES-OAEP with SHA-1, MGF1 with SHA-1 and an empty label: what PHP means by OAEP.
  case oaep
  /// RSAES-PKCS1-v1_5, for apps and servers that know nothing else.
  case pkcs1

  var encryption: _RSA.Encryption.Padding {
    switch self {
    case .oaep: .PKCS1_OAEP
    case .pkcs1: ._WEAK_AND_INSECURE_PKCS_V1_5
    }
  }

  /// Bytes of a block that the padding takes.
  var overhead: Int {
    switch self {
    case .oaep: 42
    case .pkcs1: 11
    }
  }
}
