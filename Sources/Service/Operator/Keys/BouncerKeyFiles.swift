import Basics
package import Foundation
import HTTP
import Platform
import Providers
import Registrations
import SQL
package import Sealing

/// Reads and changes the bouncer's key pairs in `Keys/bouncer/*.json`, for commands. A running service picks
/// up changes within seconds.
package struct BouncerKeyFiles: Sendable {
  /// A key pair with the other contents of its file.
  package struct Key: Sendable {
    package let pair: BouncerKeyPair
    package let createdAt: Date
    /// Whether new apps should be shipped with this key.
    package var state: BouncerKeyring.Entry.State

    /// The public key in base64.
    package var publicKey: String { pair.publicKeyBase64 }
  }

  package struct NotFound: Error, CustomStringConvertible {
    let publicKey: String
    let directory: String

    /// Includes the folder that was searched.
    package var description: String { "there is no key \(publicKey) in \(directory)" }
  }

  private let directory: URL

  package init(directory: String) {
    self.directory = URL(fileURLWithPath: directory).appending(path: "bouncer", directoryHint: .isDirectory)
  }

  /// All keys, ordered by creation.
  package func list() throws -> [Key] {
    try files().map(\.key).sorted { ($0.createdAt, $0.publicKey) < ($1.createdAt, $1.publicKey) }
  }

  package func generate(now: Date = Date()) throws -> Key {
    let key = Key(pair: BouncerKeyPair(), createdAt: now, state: .active)
    try write(key, to: newFile(for: key))
    return key
  }

  /// Marks a key as retired. Throws if it is the last active one.
  package func retire(_ publicKey: String) throws -> Key {
    var (url, key) = try find(publicKey)
    try keepAnActiveKey(besides: key)
    key.state = .retired
    try write(key, to: url)
    return key
  }

  /// Deletes a key. Throws if it is the last active one.
  package func remove(_ publicKey: String) throws -> Key {
    let (url, key) = try find(publicKey)
    try keepAnActiveKey(besides: key)
    try FileManager.default.removeItem(at: url)
    try PrivateFile.syncFolder(of: url.path)
    return key
  }

  /// Imports the key pairs of a Zulip bouncer from `zulip-secrets.conf`, where
  /// `push_registration_encryption_keys` is a JSON object from public to private keys. Existing key pairs are
  /// kept unchanged.
  ///
  /// - Parameter path: the path of the file with `text`, for errors.
  package func importZulipSecrets(_ text: String, of path: String, now: Date = Date()) throws -> [Key] {
    let lines = text.split(whereSeparator: \.isNewline).map { $0.split(separator: "=", maxSplits: 1) }
    guard
      let value = lines.last(where: {
        $0.count == 2 && String($0[0]).strippingWhitespace() == "push_registration_encryption_keys"
      })?[1]
    else { throw Fault(source: path, "has no push_registration_encryption_keys") }
    let key = "push_registration_encryption_keys"
    let json: JSON
    do throws(Fault) {
      json = try Fault.json(Data(value.utf8))
    } catch {
      throw Fault(source: path, key: key, error.problem, advice: "put it on one line, as Zulip has it")
    }
    guard case .object(let pairs) = json else {
      throw Fault(source: path, key: key, "is no JSON object from public to private keys")
    }
    let keys = try pairs.members.map { member in
      guard let pair = member.value.string.flatMap(BouncerKeyPair.init(privateKey:)),
        Name(pair.publicKeyBase64) == member.name
      else { throw Fault(source: path, key: "the private key of \(member.name)", "does not fit it") }
      return Key(pair: pair, createdAt: now, state: .active)
    }
    let known = try Dictionary(list().map { ($0.publicKey, $0) }, uniquingKeysWith: { first, _ in first })
    for key in keys where known[key.publicKey] == nil { try write(key, to: newFile(for: key)) }
    return keys.map { known[$0.publicKey] ?? $0 }
  }

  /// Without an active key no device can register, and no app can be shipped.
  private func keepAnActiveKey(besides key: Key) throws {
    guard key.state == .active else { return }
    guard try list().contains(where: { $0.state == .active && $0.publicKey != key.publicKey }) else {
      throw Fault(
        """
        \(key.publicKey) is the last active key: without one nothing can be registered. \
        Make another first, with push-bouncer keys generate, and ship the app with it
        """)
    }
  }

  private func find(_ publicKey: String) throws -> (url: URL, key: Key) {
    guard let found = try files().first(where: { $0.key.publicKey == publicKey }) else {
      throw NotFound(publicKey: publicKey, directory: directory.path)
    }
    return found
  }

  private func files() throws -> [(url: URL, key: Key)] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
    return try names.filter { $0.hasSuffix(".json") }.sorted().map { name in
      let url = directory.appending(path: name)
      do {
        let bytes = try PrivateFile.contents(of: url.path, atMost: KeyFile.maximumBytes)
        return (url, try Key(Data(bytes)))
      } catch let fault as Fault {
        throw fault.source == nil ? Fault(source: url.path, fault.problem, advice: fault.advice) : fault
      }
    }
  }

  private func newFile(for key: Key) -> URL {
    let day = key.createdAt.formatted(.iso8601.year().month().day())
    return directory.appending(path: "\(day)-\(PushToken.fingerprint(of: key.publicKey)).json")
  }

  private func write(_ key: Key, to url: URL) throws {
    try PrivateFile.makeFolder(at: directory.path)
    let json: JSON = [
      "public_key": .string(key.publicKey), "private_key": .string(key.pair.privateKeyBase64),
      "created_at": .string(key.createdAt.formatted(.iso8601)), "state": .string(key.state.rawValue),
    ]
    try PrivateFile.write(json.bytes + [UInt8(ascii: "\n")], to: url.path, replacing: true)
    try sync()
  }

  /// Syncs the keys' names and those of their folders. To be called before a key is shown.
  package func sync() throws {
    try PrivateFile.syncFolder(of: directory.appending(path: "any").path)
    try KeyFolder.syncNames(in: directory.deletingLastPathComponent().path)
  }
}

extension BouncerKeyFiles.Key {
  /// - Throws: what to fix; never contains a key.
  init(_ data: Data) throws(Fault) {
    let json = try Fault.json(data)
    guard let pair = json["private_key"]?.string.flatMap(BouncerKeyPair.init(privateKey:)) else {
      throw Fault("has no private_key of 32 bytes in base64")
    }
    guard json["public_key"]?.string == pair.publicKeyBase64 else {
      throw Fault("has a public_key that does not belong to its private_key")
    }
    guard let state = BouncerKeyring.Entry.State(rawValue: json["state"]?.string ?? "active") else {
      throw Fault("has a state that is neither active nor retired")
    }
    guard let created = json["created_at"]?.string, let date = Self.date(created) else {
      throw Fault("has no created_at in RFC 3339")
    }
    self.init(pair: pair, createdAt: date, state: state)
  }

  private static func date(_ text: String) -> Date? {
    (try? Date(text, strategy: .iso8601))
      ?? (try? Date(text, strategy: .iso8601.year().month().day().time(includingFractionalSeconds: true)))
  }
}
