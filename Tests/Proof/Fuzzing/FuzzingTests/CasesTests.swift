import Foundation
import Fuzzing
import Testing

/// Replays the seeds and findings of fuzzing, without libFuzzer.
@Suite struct CasesTests {
  /// `Tests/Proof/Fuzzing`
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
