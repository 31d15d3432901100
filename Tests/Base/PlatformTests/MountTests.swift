import Platform
import Testing

@Suite struct MountTests {
  @Test func `The kernel's table is understood`() throws {
    #expect(Mount.table.isEmpty || Mount(of: "/", in: Mount.table)?.point == "/")
    #expect(Mount(of: "/x", in: "nonsense\n1 2 3 - x\n") == nil)
  }
}
