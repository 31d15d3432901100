import Foundation
import Testing

@testable import Sealing

@Suite struct SecretsTests {
  /// In a process of its own: hiding cannot be undone.
  @Test func `A process hides its memory from others and from core dumps`() async {
    await #expect(processExitsWith: .success) {
      // Swift cannot call prctl by its name, which takes as many arguments as it likes.
      let prctl = unsafeBitCast(
        try #require(dlsym(nil, "prctl")),
        to: (@convention(c) (CInt, CUnsignedLong, CUnsignedLong, CUnsignedLong, CUnsignedLong) -> CInt).self)
      let getDumpable: CInt = 3
      #expect(prctl(getDumpable, 0, 0, 0, 0) == 1)
      #expect(ProcessMemory.hide())
      #expect(prctl(getDumpable, 0, 0, 0, 0) == 0)
      var cores = rlimit()
      #expect(getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &cores) == 0)
      #expect(cores.rlim_cur == 0 && cores.rlim_max == 0)
    }
  }

  @Test func `A device's key leaves no bytes behind that were read from its text`() {
    let text = Base64.encode([0x31] + [UInt8](repeating: 0xA7, count: 32))
    var key: PushKey?
    // Without wiping they stay, which shows that they would be found.
    #expect(Self.leavesKey { _ = Base64.decodeStrictly(text) })
    #expect(!Self.leavesKey { key = PushKey(base64: text) })
    #expect(key != nil)
  }

  /// Whether the 32 bytes are still in memory that an array of 33 bytes has had. This thread's freed memory is
  /// the first to be handed out again; its first 16 bytes are the allocator's by then.
  private static func leavesKey(_ body: () -> Void) -> Bool {
    let size = 32 + 33
    body()
    let blocks = (0..<16).compactMap { _ in malloc(size) }
    defer { for block in blocks { free(block) } }
    let hasKey = blocks.map {
      UnsafeRawBufferPointer(start: $0, count: size)[33...].allSatisfy { $0 == 0xA7 }
    }
    for block in blocks { memset(block, 0, size) }
    return hasKey.contains(true)
  }
}
