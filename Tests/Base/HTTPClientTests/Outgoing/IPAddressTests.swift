import Basics
import HTTPClient
import Testing

@Suite("An address")
struct IPAddressTests {
  @Test(arguments: [
    "1.1.1.1", "9.255.255.255", "172.15.0.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "2a01:4f8::1",
  ])
  func `is public`(text: String) {
    #expect(IPAddress(text)?.isPublic == true)
  }

  @Test(arguments: [
    "0.0.0.0", "10.1.2.3", "127.0.0.1", "100.64.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255",
    "192.168.1.1", "192.0.2.1", "198.18.0.1", "203.0.113.9", "224.0.0.1", "255.255.255.255", "::", "::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "fe80::1", "fc00::1", "fd12::1", "ff02::1",
    "2001:db8::1", "2001::1", "2002:7f00:1::", "64:ff9b::7f00:1",
  ])
  func `is not public`(text: String) {
    #expect(IPAddress(text)?.isPublic == false)
  }

  @Test(arguments: ["", "1.2.3", "1.2.3.4.5", "01.2.3.4x", "::1%lo", "localhost"])
  func `is nothing but an address`(text: String) {
    #expect(IPAddress(text) == nil)
  }

  @Test(arguments: [
    ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
  ])
  func `is what its owner has at least`(text: String, network: String) {
    #expect(IPAddress(text)?.network == IPAddress(network))
  }
}
