import Foundation
import HTTP
import Sealing
import Synchronization

/// The entries of a request, matched with their devices. Each entry is checked on its own; a faulty one does
/// not affect the others. A malformed one is in none of the lists.
struct NotificationBatch {
  /// An entry and the device whose key has signed it.
  struct Signed {
    let entry: NotificationEntry
    let device: NextcloudDevice

    /// Whether it names the stored token, and not the device's former or next one.
    var namesToken: Bool { device.tokenHash == entry.tokenHash }
  }

  /// The entries signed with a key of their devices, in the order of the request.
  private var signed: [Signed] = []
  /// The entries to be sent: those for the stored token, if it opens.
  var accepted: [Signed] { signed.filter { $0.namesToken && $0.device.token != nil } }
  /// The entries for a device's former or next token.
  var differing: [Signed] { signed.filter { !$0.namesToken } }
  /// Entries whose identifier is not registered.
  private(set) var missing: [NotificationEntry] = []
  /// Entries that are not signed with a key that their identifier is registered with. That key may be registered later, so
  /// their devices must not be reported as unknown.
  private(set) var unverified: [NotificationEntry] = []

  /// An entry and the devices that may have signed it: the one with its token first, then those that were used before.
  private struct Candidate {
    let entry: NotificationEntry
    let devices: [(device: NextcloudDevice, key: RSAPublicKey)]

    /// The device whose key has signed the entry.
    var signer: NextcloudDevice? {
      devices.first { $0.key.verifies(entry.signature, of: entry.ciphertext) }?.device
    }
  }

  /// Checks entries against the devices found for them. The signature of an entry without a device is not
  /// checked: its key is unknown.
  init(_ entries: [NotificationEntry?], devices: [NextcloudDevice]) async throws {
    // Each key is parsed once: a user has many devices, and a group chat few users.
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
      let found = places.map { devices[$0] }.sorted { Self.rank($0, entry) < Self.rank($1, entry) }
        .prefix(Self.mostKeys).compactMap { device in key(device.userKey).map { (device, $0) } }
      candidates.append(Candidate(entry: entry, devices: found))
    }
    for (candidate, signer) in zip(candidates, try await Self.verify(candidates)) {
      if let signer {
        signed.append(Signed(entry: candidate.entry, device: signer))
      } else {
        unverified.append(candidate.entry)
      }
    }
  }

  /// Maximum number of keys that an entry's signature is compared with. An identifier may have more, of strangers; the
  /// one with the entry's token is always among them.
  private static let mostKeys = 8

  private static func rank(_ device: NextcloudDevice, _ entry: NotificationEntry) -> Int {
    device.tokenHash == entry.tokenHash ? 0 : device.isUsed ? 1 : 2
  }

  /// Number of signatures that are verified in one go, in about two milliseconds.
  private static let signaturesAtOnce = 64

  /// The signer of each entry. Long requests take turns with each other.
  private static func verify(_ candidates: [Candidate]) async throws -> [NextcloudDevice?] {
    let all = candidates.reduce(0) { $0 + $1.devices.count }
    guard all > signaturesAtOnce else { return candidates.map(\.signer) }
    var signers: [NextcloudDevice?] = []
    var rest = candidates[...]
    while !rest.isEmpty {
      var signatures = 0
      let part = rest.prefix { candidate in
        signatures += candidate.devices.count
        return signatures <= signaturesAtOnce
      }
      rest = rest[part.endIndex...]
      signers += try await LongRead.piece { part.map(\.signer) }
    }
    return signers
  }
}

/// Bytes as a dictionary key, hashed in one piece. An array hashes each element by itself, which would take
/// as long as everything else about finding an entry's device.
struct Bytes: Hashable {
  let bytes: [UInt8]

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  func hash(into hasher: inout Hasher) {
    bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
  }
}

/// Remembers the notifications of the last minutes, so that a repeated request does not make phones ring
/// twice. Encryption is randomized, so an equal signature for an equal device means the same notification.
final class SentNotifications: Sendable {
  /// A notification for a device: the device's row, and 16 bytes of the verified signature.
  struct Key: Hashable {
    let device: Int64
    let signature: SIMD2<UInt64>
  }

  /// Seconds for which a notification is remembered.
  private static let retention: TimeInterval = 300
  /// Maximum number of notifications remembered; beyond it the older half is forgotten.
  private static let maximum = 100_000

  /// The times at which notifications are forgotten.
  private struct Ends {
    /// The newest ones, at most half of all.
    var recent: [Key: Date] = [:]
    var old: [Key: Date] = [:]
  }

  private let now: @Sendable () -> Date
  private let ends = Mutex(Ends())

  init(now: @escaping @Sendable () -> Date) {
    self.now = now
  }

  /// Whether each notification is remembered, or comes earlier in the same list.
  func areRepeated(_ keys: [Key]) -> [Bool] {
    let now = now()
    var seen: Set<Key> = []
    return ends.withLock { ends in
      keys.map { key in
        !seen.insert(key).inserted || (ends.recent[key] ?? ends.old[key]).map { now < $0 } == true
      }
    }
  }

  /// Remembers notifications that were sent or durably queued.
  func add(_ keys: [Key]) {
    let end = now() + Self.retention
    ends.withLock { ends in
      for key in keys {
        if ends.recent.count == Self.maximum / 2 { ends = Ends(old: ends.recent) }
        ends.recent[key] = end
      }
    }
  }
}

extension SentNotifications.Key {
  init(_ notification: NotificationBatch.Signed) {
    device = notification.device.id
    signature = notification.entry.signature.withUnsafeBytes {
      $0.loadUnaligned(as: SIMD2<UInt64>.self)  // 256 bytes at least
    }
  }
}
