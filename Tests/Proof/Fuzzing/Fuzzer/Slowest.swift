import Foundation

/// The input that has taken the longest for its length so far, for the table of Scripts/proof/fuzz.
struct Slowest {
  private var time = 0.0

  mutating func note(_ time: Double, _ size: Int) {
    // The first few inputs include one-time initialization.
    guard time > self.time else { return }
    self.time = time
    FileHandle.standardError.write(Data("==SLOWEST== \(Int(time / 1000)) µs, \(size) bytes\n".utf8))
  }
}

/// libFuzzer calls on one thread.
nonisolated(unsafe) var slowest = Slowest()
