internal import Foundation
internal import Sealing
internal import Synchronization

/// The entries of a request matched with the devices that they are for. Each stands alone: what is wrong with
/// one changes nothing about another. One that is malformed, or that no key has signed which its identifier is
/// registered with, is nowhere here: such a key may yet come, so that it says nothing about what is there.
struct NotificationBatch {
  /// An entry that its device should get.
  struct Accepted {
    let entry: NotificationEntry
    let device: NextcloudDevice
    let token: String
  }

  /// An entry that its device's server has signed, and that names another token than the device's.
  struct Differing {
    let entry: NotificationEntry
    let device: NextcloudDevice
  }

  /// What passed every check, in the order of the request.
  private(set) var accepted: [Accepted] = []
  /// What is for a device's former or next token.
  private(set) var differing: [Differing] = []
  /// Entries whose identifier nobody has registered.
  private(set) var missing: [NotificationEntry] = []
  /// An entry with the devices that have its identifier, that with its token first.
  private struct Candidate {
    let entry: NotificationEntry
    let devices: [(device: NextcloudDevice, key: RSAPublicKey)]

    /// The one whose key has signed it.
    var signer: NextcloudDevice? {
      devices.first { $0.key.verifies(entry.signature, of: entry.ciphertext) }?.device
    }
  }

  /// Checks entries against the devices that were found for them. Whose device is missing is not asked for
  /// a signature: nobody could check it.
  init(_ entries: [NotificationEntry?], devices: [NextcloudDevice]) async {
    // One user has many devices, and a group chat few users: a key is parsed once.
    var keys: [Bytes: RSAPublicKey?] = [:]
    func key(_ der: [UInt8]) -> RSAPublicKey? {
      if let known = keys[Bytes(der)] { return known }
      let key = try? RSAPublicKey(der: der)
      keys[Bytes(der)] = .some(key)
      return key
    }
    let places = Dictionary(grouping: devices.indices) { Bytes(devices[$0].identifier) }
    var candidates: [Candidate] = []
    candidates.reserveCapacity(entries.count)
    for case let entry? in entries {
      guard let places = places[Bytes(entry.identifier)] else {
        missing.append(entry)
        continue
      }
      var found = places.compactMap { place in
        key(devices[place].userKey).map { (device: devices[place], key: $0) }
      }
      _ = found.partition { $0.device.tokenHash != entry.tokenHash }
      candidates.append(Candidate(entry: entry, devices: found))
    }
    for (candidate, signer) in zip(candidates, await Self.verify(candidates)) {
      guard let signer else { continue }
      if signer.tokenHash != candidate.entry.tokenHash {
        differing.append(Differing(entry: candidate.entry, device: signer))
      } else if let token = signer.token {
        accepted.append(Accepted(entry: candidate.entry, device: signer, token: token))
      }
    }
  }

  /// What the keys of devices have signed, as the devices' rows have to know it.
  var signed: [NextcloudDevices.Signed] {
    differing.map { .init($0.device, namesToken: false) }
      + accepted.map { .init($0.device, namesToken: true) }
  }

  /// Fewer entries than this are not worth a task.
  private static let entriesPerTask = 32

  /// Who has signed each: on as many tasks as there are processors.
  private static func verify(_ candidates: [Candidate]) async -> [NextcloudDevice?] {
    let processors = ProcessInfo.processInfo.activeProcessorCount
    let perTask = max(entriesPerTask, (candidates.count + processors - 1) / processors)
    guard candidates.count > perTask else { return candidates.map(\.signer) }
    return await withTaskGroup(of: (Int, [NextcloudDevice?]).self) { group in
      for start in stride(from: 0, to: candidates.count, by: perTask) {
        let part = candidates[start..<min(start + perTask, candidates.count)]
        group.addTask { (start, part.map(\.signer)) }
      }
      var results = [NextcloudDevice?](repeating: nil, count: candidates.count)
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

/// The notifications of the last minutes, so that a request that was sent again does not make phones
/// ring twice: encryption is randomized, and an equal signature for an equal device is the same notification.
final class SentNotifications: Sendable {
  /// A notification for a device: the row, and 16 bytes of a signature that was verified.
  struct Key: Hashable {
    let device: Int64
    let signature: SIMD2<UInt64>
  }

  /// How long a notification is remembered, in seconds.
  private static let memory: TimeInterval = 300
  /// Notifications remembered at a time; beyond it the older half of them is forgotten.
  private static let maximum = 100_000

  /// Until when each is remembered.
  private struct Ends {
    /// Those that came last, at most half of all.
    var young: [Key: Date] = [:]
    var old: [Key: Date] = [:]
  }

  private let now: @Sendable () -> Date
  private let ends = Mutex(Ends())

  init(now: @escaping @Sendable () -> Date) {
    self.now = now
  }

  /// Whether each is remembered, or stands in front of itself in the list.
  func areRepeated(_ keys: [Key]) -> [Bool] {
    let now = now()
    var seen: Set<Key> = []
    return ends.withLock { ends in
      keys.map { key in
        !seen.insert(key).inserted || (ends.young[key] ?? ends.old[key]).map { now < $0 } == true
      }
    }
  }

  /// Remembers what has been sent or durably queued.
  func add(_ keys: [Key]) {
    let end = now() + Self.memory
    ends.withLock { ends in
      for key in keys {
        if ends.young.count == Self.maximum / 2 { ends = Ends(old: ends.young) }
        ends.young[key] = end
      }
    }
  }
}

extension SentNotifications.Key {
  init(_ notification: NotificationBatch.Accepted) {
    device = notification.device.id
    signature = notification.entry.signature.withUnsafeBytes {
      $0.loadUnaligned(as: SIMD2<UInt64>.self)  // 256 bytes at least
    }
  }
}
