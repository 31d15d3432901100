/// What a phone sends to register, in the order in which it is checked
/// (`Documentation/Protocols/Nextcloud.md` 5.3).
enum PushParameters {
  /// SHA-512 in lower-case hex; nothing around it.
  static func pushTokenHash(_ text: String) throws(OCSAnswer) -> String {
    let isHash =
      text.utf8.count == 128
      && text.utf8.allSatisfy { byte in
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
          || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
      }
    guard isHash else { throw .bad("INVALID_PUSHTOKEN_HASH") }
    return text
  }

  /// A public key of RSA-2048 in PEM, with or without a newline at its end. Only its outward form is looked
  /// at, as Nextcloud does: one that is no key goes when the first push cannot be encrypted.
  static func deviceKey(_ text: String) throws(OCSAnswer) -> String {
    let bytes = text.utf8
    let body = bytes.dropFirst(begin.utf8.count).prefix(425 - begin.utf8.count)
    guard text.utf8.starts(with: begin.utf8),
      body.allSatisfy({ $0 == UInt8(ascii: "\n") || (0x20...0x7e).contains($0) }),
      bytes.dropFirst(425).elementsEqual(end.utf8) || bytes.dropFirst(425).elementsEqual("\(end)\n".utf8)
    else { throw .bad("INVALID_DEVICE_KEY") }
    return text
  }

  /// The proxy, as it was named.
  static func proxyServer(_ text: String, allowsLocal: Bool) throws(OCSAnswer) -> String {
    guard ProxyAddress.isValid(text, allowsLocal: allowsLocal) else { throw .bad("INVALID_PROXY_SERVER") }
    return text
  }

  private static let begin = "-----BEGIN PUBLIC KEY-----\n"
  private static let end = "\n-----END PUBLIC KEY-----"
}

extension NextcloudLogin {
  /// The app password, without which there is no phone to register.
  func token() throws(OCSAnswer) -> Int64 {
    guard let appPassword else { throw .bad("INVALID_SESSION_TOKEN") }
    return appPassword
  }
}
