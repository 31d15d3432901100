import Foundation
import Fuzzing
import Testing

/// What fuzzing begins with, and what it has found, is read again each time, without libFuzzer.
@Suite struct CasesTests {
  /// `Tests/Fuzzing`
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

  private static func inputs(_ kind: String, _ target: String) throws -> [URL] {
    let folder = folder.appending(path: "\(kind)/\(target)")
    guard FileManager.default.fileExists(atPath: folder.path) else { return [] }
    return try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
      .sorted { $0.path < $1.path }
  }

  @Test(arguments: fuzzTargets.map { $0.name }) func `Seeds and cases are read as they should be`(
    target: String
  ) throws {
    let parser = try #require(fuzzTargets.first { $0.name == target })
    let seeds = try Self.inputs("Seeds", target)
    #expect(!seeds.isEmpty, "fuzzing begins with something")
    for input in seeds + (try Self.inputs("Cases", target)) {
      let bytes = [UInt8](try Data(contentsOf: input))
      #expect(throws: Never.self, "\(input.path)") { try parser.run(bytes) }
    }
    #expect(throws: Never.self, "nothing") { try parser.run([]) }
  }

  /// What only libFuzzer does otherwise, in small: parts left out, doubled, and bytes changed. The same each time.
  @Test(arguments: fuzzTargets.map { $0.name }) func `What is near a seed is read as it should be`(
    target: String
  ) throws {
    let parser = try #require(fuzzTargets.first { $0.name == target })
    var seed: UInt64 = 1
    for input in try Self.inputs("Seeds", target).prefix(10) {
      let bytes = [UInt8](try Data(contentsOf: input))
      for _ in 0..<3 {
        seed += 1
        var longer = bytes
        repeatPiece(&longer, limit: 2048, seed: seed)
        let cut = Array(bytes.prefix(Int(seed * 7919) % (bytes.count + 1)))
        var changed = bytes
        if !changed.isEmpty { changed[Int(seed * 104_729) % changed.count] ^= UInt8(1 << (seed % 8)) }
        for bytes in [longer, cut, changed] {
          #expect(throws: Never.self, "\(input.path), changed") { try parser.run(bytes) }
        }
      }
    }
  }

  @Test func `Every folder of seeds and cases belongs to a target`() throws {
    for kind in ["Seeds", "Cases"] {
      let folder = Self.folder.appending(path: kind)
      guard FileManager.default.fileExists(atPath: folder.path) else { continue }
      for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where !name.hasPrefix(".")
      {
        #expect(fuzzTargets.contains { $0.name == name }, "\(kind)/\(name)")
      }
    }
  }
}
