import Foundation

/// Texts that are most expensive to process as `Character`s: each is one grapheme cluster or a few, which
/// comparing, hashing and searching by canonical equivalence decompose and sort.
package enum HostileText: String, CaseIterable, Sendable {
  case marks = "\u{345}"
  case decomposedMarks = "\u{344}"
  case unorderedMarks = "\u{345}\u{301}\u{316}\u{334}"
  case compositeMarks = "\u{F73}"
  case flags = "\u{1F1E6}"
  case joinedEmoji = "\u{1F468}\u{200D}"

  /// The text with `bytes` bytes, or a few less.
  package func text(bytes: Int) -> String {
    String(repeating: rawValue, count: bytes / rawValue.utf8.count)
  }

  /// Whether it is a run of combining marks, which the product does not store.
  package var isUnfit: Bool {
    switch self {
    case .marks, .decomposedMarks, .unorderedMarks, .compositeMarks: true
    case .flags, .joinedEmoji: false
    }
  }
}

/// The CPU time of a call in this thread, in seconds, which is independent of other tests and programs.
package func cpuSeconds(_ call: () throws -> Void) rethrows -> Double {
  let start = cpuTime(CLOCK_THREAD_CPUTIME_ID)
  try call()
  return cpuTime(CLOCK_THREAD_CPUTIME_ID) - start
}

/// The CPU time that the whole process takes during a call, in seconds, which is independent of other programs.
package func processSeconds(_ call: () async throws -> Void) async rethrows -> Double {
  let start = cpuTime(CLOCK_PROCESS_CPUTIME_ID)
  try await call()
  return cpuTime(CLOCK_PROCESS_CPUTIME_ID) - start
}

private func cpuTime(_ clock: clockid_t) -> Double {
  var time = timespec()
  clock_gettime(clock, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
