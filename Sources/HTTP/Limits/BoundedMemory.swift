/// What is remembered of each key for as long as it matters, in bounded memory.
///
/// Nothing is forgotten early to make room. When the memory is full, new keys share a fixed number of places, chosen by a
/// hash that nobody outside can foresee. A new key may then be held back for what others in its place did; keys that
/// were remembered before are not affected.
struct BoundedMemory<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private static var places: Int { 1 << 14 }

  private let capacity: Int
  private let lifetime: Double
  /// What was written since `turned`, and what was written before and not since. Both are turned over once a
  /// lifetime, so that what goes was last written a lifetime ago at least.
  private var young: [Key: Value] = [:]
  private var old: [Key: Value] = [:]
  private var turned = -Double.infinity
  private var shared: [Int: Value] = [:]

  /// - Parameters:
  ///   - capacity: how many keys have a place of their own.
  ///   - lifetime: for how many seconds after it was last written a value is there at least.
  init(capacity: Int = 100_000, lifetime: Double) {
    self.capacity = capacity
    self.lifetime = lifetime
  }

  /// What is remembered of a key, or of those that share its place; possibly long ago.
  func value(of key: Key) -> Value? { young[key] ?? old[key] ?? shared[Self.place(of: key)] }

  /// Remembers a key.
  ///
  /// - Parameter now: seconds since any one moment.
  mutating func set(_ value: Value, for key: Key, now: Double) {
    // A clock that was put back starts anew from there.
    if now - turned >= lifetime || now < turned {
      old = now < turned ? old.merging(young) { $1 } : young
      young = [:]
      turned = now
    }
    if let kept = old.removeValue(forKey: key) { young[key] = kept }
    if young[key] != nil || young.count + old.count < capacity {
      young[key] = value
    } else {
      shared[Self.place(of: key)] = value
    }
  }

  /// By a hash whose seed is of this process alone.
  private static func place(of key: Key) -> Int {
    Int(truncatingIfNeeded: key.hashValue.magnitude % UInt(places))
  }
}
