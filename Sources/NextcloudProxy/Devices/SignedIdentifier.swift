internal import Sealing

/// A device's identifier and who it belongs to, proven: what the parameters of both calls of `/devices` say.
struct SignedIdentifier {
  /// The raw 64 bytes: the SHA-512 of what only the server knows.
  let identifier: [UInt8]
  /// The key of the user whose server has signed it.
  let userKey: RSAPublicKey

  /// Reads and verifies. The signature is one of the text that the identifier is the hash of, so that the
  /// identifier is its digest and is not hashed again.
  init(_ parameters: DeviceParameters) throws(ProxyError) {
    guard let identifier = Base64.decodeStrictly(try parameters.required("deviceIdentifier")),
      identifier.count == 64
    else {
      throw ProxyError("deviceIdentifier is malformed: it is the base64 of 64 bytes, as the server gave it.")
    }
    let pem = try parameters.required("userPublicKey")
    guard let userKey = try? RSAPublicKey(pem: pem) else {
      throw ProxyError("userPublicKey is malformed: it is the PEM of an RSA key of 2048 to 4096 bits.")
    }
    guard let signature = Base64.decodeStrictly(try parameters.required("deviceIdentifierSignature")),
      signature.count == userKey.ciphertextBytes
    else {
      throw ProxyError(
        "deviceIdentifierSignature is malformed: it is the base64 of \(userKey.ciphertextBytes) bytes.")
    }
    guard userKey.verifies(signature, digest: identifier) else {
      throw ProxyError("deviceIdentifierSignature is not the signature of deviceIdentifier by userPublicKey.")
    }
    self.identifier = identifier
    self.userKey = userKey
  }
}
