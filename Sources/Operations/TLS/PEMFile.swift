internal import Foundation
package import NIOSSL

/// A file of PEM that a setting names.
package struct PEMFile: Sendable {
  /// Larger ones are none.
  private static let maximumBytes = 4 << 20

  let path: String
  private let key: String
  private let text: String

  /// Reads it.
  ///
  /// - Parameter key: the setting that names it.
  /// - Throws: ``Fault`` that says what is wrong with the file.
  package init(_ path: String, key: String) throws(Fault) {
    if let fault = Fault(unreadable: path, key: key) { throw fault }
    (self.path, self.key) = (path, key)
    guard let bytes = FileManager.default.contents(atPath: path), bytes.count <= Self.maximumBytes else {
      throw Fault(
        key: key, "names \(path), which is larger than such a file ever is", advice: "name another one")
    }
    text = String(decoding: bytes, as: UTF8.self)
    guard text.utf8.contains("-----BEGIN ".utf8) else {
      throw Fault(
        key: key, "names \(path), which is no PEM file (there is no line -----BEGIN ...)",
        advice: "put a file in PEM there, or convert it with openssl")
    }
  }

  /// At least one.
  package func certificates() throws(Fault) -> [NIOSSLCertificate] {
    guard text.utf8.contains("CERTIFICATE-----".utf8) else {
      throw Fault(
        key: key, "names \(path), which has no certificate in it",
        advice: "put the certificate there; perhaps it is in the file of the key")
    }
    guard let chain = try? NIOSSLCertificate.fromPEMBytes(Array(text.utf8)), !chain.isEmpty else {
      throw Fault(
        key: key, "names \(path), whose certificate is damaged", advice: "put the certificate there anew")
    }
    return chain
  }

  func privateKey() throws(Fault) -> NIOSSLPrivateKey {
    guard text.utf8.contains("PRIVATE KEY-----".utf8) else {
      throw Fault(
        key: key, "names \(path), which has no private key in it",
        advice: "put the key there; perhaps it is in the file of the certificate")
    }
    guard !text.utf8.contains("ENCRYPTED".utf8) else {
      throw Fault(
        key: key, "names \(path), whose key wants a passphrase",
        advice: "take it off with openssl pkey -in OLD -out NEW, and let only the service read the new file")
    }
    guard let privateKey = try? NIOSSLPrivateKey(bytes: Array(text.utf8), format: .pem) else {
      throw Fault(key: key, "names \(path), whose key is damaged", advice: "put the key there anew")
    }
    return privateKey
  }
}

extension String.UTF8View {
  fileprivate func contains(_ part: String.UTF8View) -> Bool { firstRange(of: part) != nil }
}
