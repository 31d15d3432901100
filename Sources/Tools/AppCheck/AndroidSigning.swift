import Crypto
import Foundation
import SwiftASN1

/// Finds the certificate that an APK or AAB is signed with. Signatures are not verified: Android does that.
enum AndroidSigning {
  /// The SHA-256 of the certificate, as Android's tools write it: `AB:CD:...`; and whether it is one that Android's tools
  /// make for builds of a developer. nil if the package is not signed.
  static func certificate(_ files: AppFiles) throws -> (fingerprint: String, isDebug: Bool)? {
    guard let certificate = try blockCertificate(files) ?? jarCertificate(files) else { return nil }
    let fingerprint = SHA256.hash(data: certificate).map { String(format: "%02X", $0) }
    return (fingerprint.joined(separator: ":"), certificate.has("Android Debug"))
  }

  /// That of an APK Signature Scheme from version 2 on: in a block before the zip archive's directory.
  private static func blockCertificate(_ files: AppFiles) throws -> Data? {
    guard let (data, directory) = files.archive.map({ ($0.data, $0.directory) }) else { return nil }
    guard directory >= 32, data.part(directory - 16, 16) == Data("APK Sig Block 42".utf8),
      let size = data.u32(directory - 24), size >= 24, size <= directory - 8
    else { return nil }
    // Each pair has its length in eight bytes, a number, and what belongs to it.
    var place = directory - size
    let end = directory - 24
    var found: [Int: Data] = [:]
    while let length = data.u32(place), length >= 4, let id = data.u32(place + 8),
      place + 8 + length <= end
    {
      try files.budget.step()
      found[id] = data.part(place + 12, length - 4)
      place += 8 + length
    }
    // Versions 3.1, 3 and 2.
    let scheme = [0x1B93_AD61, 0xF053_68C0, 0x7109_871A].lazy.compactMap { found[$0] }.first
    // Signers, the first one, its signed data; there digests, then certificates, the first one.
    func first(_ data: Data?) -> (value: Data, rest: Data)? {
      guard let data, let length = data.u32(0), let value = data.part(4, length)
      else { return nil }
      return (value, data[value.endIndex...])
    }
    let signed = first(first(first(scheme)?.value)?.value)?.value
    return first(first(first(signed)?.rest)?.value)?.value
  }

  /// That of a signature of Java's, which an AAB has: `META-INF/NAME.RSA`, a message of PKCS #7.
  private static func jarCertificate(_ files: AppFiles) throws -> Data? {
    let names = files.names(ending: ".RSA", ".DSA", ".EC").filter { $0.hasPrefix("META-INF/") }
    guard let message = try names.first.flatMap(files.data), message.count <= Budget.text else { return nil }
    // ContentInfo { contentType, [0] SignedData { version, digestAlgorithms, contentInfo, [0] certificates } }
    func members(_ node: ASN1Node?) -> [ASN1Node] {
      if case .constructed(let members)? = node?.content { Array(members.prefix(8)) } else { [] }
    }
    let content = members(members(try? DER.parse(Array(message))).dropFirst().first).first
    let certificates = members(content).first {
      $0.identifier.tagClass == .contextSpecific && $0.identifier.tagNumber == 0
    }
    return members(certificates).first.map { Data($0.encodedBytes) }
  }
}
