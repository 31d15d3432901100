import Foundation
import Fuzzing

/// The target that FUZZ_TARGET names.
private let target = fuzzTargets.first { $0.name == ProcessInfo.processInfo.environment["FUZZ_TARGET"] }

/// Without a target, prints the names of all targets for Scripts/proof/fuzz.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(
  _ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutableRawPointer
) -> CInt {
  guard target == nil else { return 0 }
  print(fuzzTargets.map { $0.name }.joined(separator: "\n"))
  exit(0)
}

/// libFuzzer calls this for each input. A broken property or a slow input stops the process, as a crash does.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
  guard let target else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data, count: size))
  var time = run(target, bytes)
  let limit = target.baseTime + target.timePerByte * Double(size)
  // Repeats a slow input, because one-time initialization or a page fault may have taken the time.
  for _ in 0..<3 where time > limit { time = min(time, run(target, bytes)) }
  slowest.note(time, size)
  guard time <= limit else {
    stop(
      "SLOW INPUT: \(size) bytes take \(Int(time / 1e6)) ms, which should be \(Int(limit / 1e6)) ms at most")
  }
  if let excess = Growth.excess(of: bytes, taking: time, run: { run(target, $0) }) {
    let times = excess.map { "\($0.bytes) bytes take \(Int($0.time / 1e3)) µs" }.joined(separator: ", ")
    stop("TIME GROWS FASTER THAN THE INPUT: \(times)")
  }
  return 0
}

/// The CPU time of one run of the target, in nanoseconds. CPU time is independent of other programs.
private func run(_ target: any FuzzTarget.Type, _ bytes: [UInt8]) -> Double {
  let start = cpuTime()
  do {
    try target.run(bytes)
  } catch {
    stop("BROKEN PROPERTY: \(error)")
  }
  return cpuTime() - start
}

/// The process's CPU time in nanoseconds. POSIX fixes CLOCKS_PER_SEC at one million.
private func cpuTime() -> Double { Double(clock()) * 1000 }

private func stop(_ reason: String) -> Never {
  FileHandle.standardError.write(Data("==FINDING== \(reason)\n".utf8))
  abort()
}

/// libFuzzer calls this to mutate an input. Sometimes a piece of the input is repeated, which libFuzzer never
/// does itself. Inputs that became long that way are mostly cut before further mutations: short inputs find
/// as much in a fraction of the time.
@_cdecl("LLVMFuzzerCustomMutator")
public func mutate(
  _ data: UnsafeMutablePointer<UInt8>, _ size: Int, _ limit: Int, _ seed: CUnsignedInt
) -> Int {
  let (kind, turn) = seed.quotientAndRemainder(dividingBy: 128)
  guard turn == 0 else {
    let size = kind.isMultiple(of: 8) ? size : min(size, 4096)
    return libFuzzersMutate(data, size, max(size, min(limit, 4096)))
  }
  var bytes = Array(UnsafeBufferPointer(start: data, count: size))
  repeatPiece(&bytes, limit: limit, seed: UInt64(kind))
  data.update(from: bytes, count: bytes.count)
  return bytes.count
}

/// C's calling convention is Swift's for three words.
@_silgen_name("LLVMFuzzerMutate")
private func libFuzzersMutate(_ data: UnsafeMutablePointer<UInt8>, _ size: Int, _ limit: Int) -> Int
