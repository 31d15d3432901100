import Foundation

@testable import Operator
@testable import Providers
@testable import Sealing

/// The JSON files of the key folder: for an Apple key, a service account and a key pair. All three parsers
/// read the same bytes.
enum KeyFilesTarget: FuzzTarget {
  static let name = "key-files"
  // Keys are checked, RSA's for 20 ms.
  static let baseTime = 100_000_000.0

  private static let apns = InputFile("keys/apns/a.json")
  private static let others = ["bouncer", "fcm"]

  /// The three names of one file, and a key of Apple's kind beside it.
  private static let folder: String = {
    let keys = InputFile.folder.appending(path: "keys")
    apns.write([])
    for folder in others {
      let other = InputFile("keys/\(folder)/a.json")
      try? FileManager.default.removeItem(at: other.url)
      precondition(link(apns.path, other.path) == 0, "a file can have several names")
    }
    InputFile("keys/apns/AuthKey_ABCDE12345.p8").write(Array(PEMTarget.p8.utf8))
    return keys.path
  }()

  static func run(_ bytes: [UInt8]) throws {
    let folder = folder
    apns.write(bytes)
    let files = KeyFile.list(folder).files
    try check(files.count == 4, "all files are found, not \(files.map(\.name))")
    for file in files {
      do {
        switch try file.read() {
        case .credential(let credential as APNsCredential):
          try check(credential.keyID.count == 10 && !credential.topics.isEmpty, "a key of Apple's is whole")
        case .bouncer(let entry):
          let pair = BouncerKeyPair(privateKey: entry.pair.privateKeyBase64)
          try check(pair?.publicKey == entry.pair.publicKey, "a pair belongs together")
        case .credential(let credential as FCMCredential):
          try check(credential.tokenURI.host() != nil, "a service account has an endpoint")
        case .credential: try check(false, "a credential is of a known provider")
        case nil: try check(file.name.hasSuffix(".p8"), "every JSON file is read")
        }
      } catch let broken as BrokenProperty {
        throw broken
      } catch {
        try check(!"\(error)".isEmpty, "a fault says something")
        try check("\(error)".utf8.count < 4096, "a fault can be read")
      }
    }
  }
}
