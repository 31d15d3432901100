import Foundation
import Testing

@testable import Platform

@Suite struct DescriptorLimitTests {
  @Test func `The limit is raised, and is what this process then has`() {
    let raised = DescriptorLimit.raised()
    var limit = rlimit()
    #expect(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
    #expect(raised.descriptors == Int(limit.rlim_cur))
    #expect(limit.rlim_cur >= min(limit.rlim_max, 65_536))
  }
}
