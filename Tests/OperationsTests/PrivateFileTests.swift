import Foundation
import TestSupport
import Testing

@testable import Operations

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

  /// As root, which may give files away.
  @Test(.enabled(if: geteuid() == 0), arguments: [false, true])
  func `What root writes belongs to whom the folder belongs`(_ replacing: Bool) throws {
    try withTemporaryFolder { folder in
      #expect(chown(folder.path, 12345, 23456) == 0)
      let path = folder.appending(path: "key").path
      try PrivateFile.write([1], to: path, replacing: replacing)
      let file = try FileManager.default.attributesOfItem(atPath: path)
      #expect((file[.ownerAccountID] as? NSNumber)?.intValue == 12345)
      #expect((file[.groupOwnerAccountID] as? NSNumber)?.intValue == 23456)
      #expect((file[.posixPermissions] as? NSNumber)?.intValue == 0o600)
    }
  }
}
