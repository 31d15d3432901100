import Foundation
import TestSupport
import Testing

@testable import Basics
@testable import Platform

@Suite struct PrivateFileTests {
  @Test func `A file is read whole and none that is larger`() throws {
    try withTemporaryFolder { folder in
      let path = folder.appending(path: "key").path
      let bytes = (0..<5000).map { UInt8(truncatingIfNeeded: $0) }
      for count in [0, 1, 4999, 5000] {
        let content = Array(bytes.prefix(count))
        try PrivateFile.write(content, to: path, replacing: true)
        for limit in [count, count + 1, 6000] {
          #expect(try PrivateFile.withContents(of: path, atMost: limit) { Array($0) } == content)
        }
        guard count > 0 else { continue }
        #expect(throws: Fault.self) {
          try PrivateFile.withContents(of: path, atMost: count - 1) { _ in }
        }
      }
      #expect(throws: Fault.self) {
        try PrivateFile.withContents(of: "\(path).none", atMost: 10) { _ in }
      }
      // Nobody is waited for at a pipe, nor is a folder read.
      #expect(mkfifo("\(path).pipe", 0o600) == 0)
      #expect(try PrivateFile.withContents(of: "\(path).pipe", atMost: 10) { $0.count } == 0)
      #expect(throws: Fault.self) {
        try PrivateFile.withContents(of: folder.path, atMost: 10) { _ in }
      }
    }
  }

  @Test func `A link in its place is replaced or stays, and is never written through`() throws {
    try withTemporaryFolder { folder in
      let (path, target) = (folder.appending(path: "key").path, folder.appending(path: "target").path)
      try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
      #expect(try PrivateFile.write([1], to: path, replacing: false) == false)
      #expect(throws: Fault.self) { try PrivateFile.make(at: path) }
      try PrivateFile.write([1], to: path, replacing: true)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["key"])
      #expect(try PrivateFile.withContents(of: path, atMost: 1) { Array($0) } == [1])
      try #require(chmod(path, 0o666) == 0)
      try PrivateFile.make(at: path).write(contentsOf: [2])
      #expect(!PrivateFile.isExposed(path))
      #expect(try PrivateFile.withContents(of: path, atMost: 1) { Array($0) } == [2])
    }
  }

  @Test func `Whoever reads a file as its group is not blamed for that`() throws {
    try withTemporaryFolder { folder in
      let path = folder.appending(path: "key").path
      try PrivateFile.write([1], to: path, replacing: false)
      for (mode, exposed, exposedToGroup) in [
        (0o600, false, false), (0o440, true, false), (0o460, true, true), (0o444, true, true),
      ] as [(mode_t, Bool, Bool)] {
        try #require(chmod(path, mode) == 0)
        #expect(PrivateFile.isExposed(path) == exposed)
        #expect(PrivateFile.isExposed(path, to: geteuid() + 1) == exposedToGroup)
      }
    }
  }

  @Test func `The way to a file is every folder and link on it`() throws {
    try withTemporaryFolder { folder in
      // Of a system whose temporary folder is a link.
      let base = folder.resolvingSymlinksInPath().path
      for name in ["a", "a/b"] { #expect(mkdir("\(base)/\(name)", 0o755) == 0) }
      for (name, target) in [("one", "a/two"), ("a/two", "../a/b"), ("loop", "loop"), ("far", "\(base)/a")] {
        try FileManager.default.createSymbolicLink(atPath: "\(base)/\(name)", withDestinationPath: target)
      }
      func way(_ path: String) -> [String] {
        FileStep.way(to: "\(base)/\(path)").map {
          URL(fileURLWithPath: $0.path).standardizedFileURL.path
        }.filter { $0.hasPrefix("\(base)/") }.map { String($0.dropFirst(base.utf8.count + 1)) }
      }
      #expect(way("a/b/none/x") == ["a", "a/b"])
      #expect(way("./one//x").contains("a/two") && way("./one//x").last == "a/b")
      #expect(way("far/b").contains("a"))
      #expect(way("loop").allSatisfy { $0 == "loop" } && way("loop").count < 100)
    }
  }
}
