internal import Crypto
internal import Foundation

/// Finds the certificate that an APK or AAB is signed with. Signatures are not verified: Android does that.
enum AndroidSigning {
  /// The SHA-256 of the certificate, as Android's tools write it: `AB:CD:...`. nil if the package is not signed.
  static func fingerprint(_ files: AppFiles) throws -> String? {
    guard let certificate = try blockCertificate(files) ?? jarCertificate(files) else { return nil }
    return SHA256.hash(data: certificate).map { byte in
      (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }.joined(separator: ":")
  }

  /// That of an APK Signature Scheme from version 2 on: in a block before the zip archive's directory.
  private static func blockCertificate(_ files: AppFiles) throws -> Data? {
    guard let (data, directory) = files.archive else { return nil }
    let reader = LittleEndian(data)
    guard directory >= 32, reader.bytes(directory - 16, 16) == Data("APK Sig Block 42".utf8),
      let size = reader.u32(directory - 24), size >= 24, size <= directory - 8
    else { return nil }
    // Each pair has its length in eight bytes, a number, and what belongs to it.
    var place = directory - size
    let end = directory - 24
    var found: [Int: Data] = [:]
    while let length = reader.u32(place), length >= 4, let id = reader.u32(place + 8),
      place + 8 + length <= end
    {
      try files.budget.step()
      found[id] = reader.bytes(place + 12, length - 4)
      place += 8 + length
    }
    // Versions 3.1, 3 and 2.
    guard let scheme = [0x1B93_AD61, 0xF053_68C0, 0x7109_871A].lazy.compactMap({ found[$0] }).first else {
      return nil
    }
    // Signers, the first one, its signed data; there digests, then certificates, the first one.
    func first(_ data: Data?) -> (value: Data, rest: Data)? {
      guard let data, let length = LittleEndian(data).u32(0), let value = LittleEndian(data).bytes(4, length)
      else {
        return nil
      }
      return (value, data[value.endIndex...])
    }
    let signed = first(first(first(scheme)?.value)?.value)?.value
    return first(first(first(signed)?.rest)?.value)?.value
  }

  /// That of a signature of Java's, which an AAB has: `META-INF/NAME.RSA`, a message of PKCS #7.
  private static func jarCertificate(_ files: AppFiles) throws -> Data? {
    let names = files.names(ending: ".RSA", ".DSA", ".EC").filter { $0.hasPrefix("META-INF/") }
    guard let name = names.first, let message = try files.data(name), message.count <= Budget.text else {
      return nil
    }
    // ContentInfo { contentType, [0] SignedData { version, digestAlgorithms, contentInfo, [0] certificates } }
    guard let info = DER(message), let content = info.members.dropFirst().first?.members.first else {
      return nil
    }
    return content.members.first { $0.tag == 0xA0 }?.members.first?.whole
  }

  /// An element of DER.
  private struct DER {
    let tag: UInt8
    let whole: Data
    private let content: Data

    init?(_ data: Data) {
      guard data.count >= 2, let tag = data.first else { return nil }
      var place = data.startIndex + 2
      var length = Int(data[data.startIndex + 1])
      if length >= 0x80 {
        let count = length & 0x7F
        guard (1...4).contains(count), data.endIndex - place >= count else { return nil }
        length = data[place..<place + count].reduce(0) { $0 << 8 | Int($1) }
        place += count
      }
      guard length <= data.endIndex - place else { return nil }
      self.tag = tag
      whole = data[data.startIndex..<place + length]
      content = data[place..<place + length]
    }

    /// The first elements inside; more than any that is looked for.
    var members: [DER] {
      var (members, rest): ([DER], Data) = ([], content)
      while members.count < 8, let member = DER(rest) {
        members.append(member)
        rest = rest[member.whole.endIndex...]
      }
      return members
    }
  }
}
