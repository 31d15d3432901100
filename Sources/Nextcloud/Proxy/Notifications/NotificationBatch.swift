internal import Foundation
internal import Registrations
internal import Sealing

/// The entries of a request matched with the devices that they are for. Each stands alone
/// (`spec/decisions.md` 16).
struct NotificationBatch {
  /// An entry that its device should get.
  struct Accepted {
    let entry: NotificationEntry
    let device: NextcloudDevice
    let token: String
  }

  /// What passed every check, in the order of the request.
  private(set) var accepted: [Accepted] = []
  /// Entries that failed a check.
  private(set) var failed = 0
  /// Entries among those whose device is not there, or has another token by now.
  private(set) var unknownEntries = 0
  /// The identifiers of such devices, each once.
  private(set) var unknown: [String] = []

  /// An entry with the place of its device and the key that should have signed it.
  private struct Candidate {
    let entry: NotificationEntry
    let device: Int
    let key: RSAPublicKey?

    var isSigned: Bool { key?.verifies(entry.signature, of: entry.ciphertext) == true }
  }

  /// Checks entries against the devices that were found for them. Whose device is unknown is not asked for
  /// a signature: nobody could check it.
  init(_ entries: [NotificationEntry?], devices: [NextcloudDevice]) async {
    let places = Dictionary(
      devices.enumerated().map { (Bytes($1.identifier), $0) }, uniquingKeysWith: { first, _ in first })
    // One user has many devices, and a group chat few users: a key is parsed once.
    var keys: [Bytes: RSAPublicKey?] = [:]
    func key(_ der: [UInt8]) -> RSAPublicKey? {
      if let known = keys[Bytes(der)] { return known }
      let key = try? RSAPublicKey(der: der)
      keys[Bytes(der)] = .some(key)
      return key
    }
    var seen: Set<String> = []
    var candidates: [Candidate] = []
    candidates.reserveCapacity(entries.count)
    for entry in entries {
      guard let entry else {
        failed += 1
        continue
      }
      guard let place = places[Bytes(entry.identifier)], devices[place].tokenHash == entry.tokenHash else {
        failed += 1
        unknownEntries += 1
        if seen.insert(entry.identifierText).inserted { unknown.append(entry.identifierText) }
        continue
      }
      candidates.append(Candidate(entry: entry, device: place, key: key(devices[place].userKey)))
    }
    for (candidate, isSigned) in zip(candidates, await Self.verify(candidates)) {
      guard isSigned, let token = devices[candidate.device].token else {
        failed += 1
        continue
      }
      accepted.append(Accepted(entry: candidate.entry, device: devices[candidate.device], token: token))
    }
  }

  /// Fewer entries than this are not worth a task.
  private static let entriesPerTask = 32

  /// Whether each is signed as it should be: on as many tasks as there are processors.
  private static func verify(_ candidates: [Candidate]) async -> [Bool] {
    let processors = ProcessInfo.processInfo.activeProcessorCount
    let perTask = max(entriesPerTask, (candidates.count + processors - 1) / processors)
    guard candidates.count > perTask else { return candidates.map(\.isSigned) }
    return await withTaskGroup(of: (Int, [Bool]).self) { group in
      for start in stride(from: 0, to: candidates.count, by: perTask) {
        let part = candidates[start..<min(start + perTask, candidates.count)]
        group.addTask { (start, part.map(\.isSigned)) }
      }
      var results = [Bool](repeating: false, count: candidates.count)
      for await (start, part) in group {
        results.replaceSubrange(start..<start + part.count, with: part)
      }
      return results
    }
  }
}

/// Bytes as a key: hashed in one piece, where an array hashes each by itself, which takes as long as
/// everything else about finding an entry's device.
struct Bytes: Hashable {
  let bytes: [UInt8]

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  func hash(into hasher: inout Hasher) {
    bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
  }
}
