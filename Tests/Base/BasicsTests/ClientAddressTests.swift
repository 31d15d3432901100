import NIOCore
import Testing

@testable import Basics

@Suite("A client's address")
struct ClientAddressTests {
  @Test(arguments: [
    ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("::FFFF:c000:201", "192.0.2.1"),
    ("2001:DB8:0:0::1", "2001:db8::1"), ("::1", "::1"), ("::", "::"), ("0.0.0.0", "0.0.0.0"),
  ])
  func `is one, however it is written`(text: String, expected: String) throws {
    let address = try #require(ClientAddress(text))
    #expect("\(address)" == expected)
    #expect(address == ClientAddress(expected))
    #expect(address == ClientAddress(try SocketAddress(ipAddress: text, port: 80)))
  }

  @Test(arguments: ["", "unknown", "1.2.3", "1.2.3.4:80", "[::1]", "::1%lo", "1.2.3.4/8", "1.2.3.4 "])
  func `is no other text`(text: String) { #expect(ClientAddress(text) == nil) }

  @Test
  func `without a network is of this host`() throws {
    #expect(ClientAddress(nil) == .loopback)
    #expect(ClientAddress(try SocketAddress(unixDomainSocketPath: "/run/socket")) == .loopback)
    #expect(ClientAddress("127.0.0.1") == .loopback)
  }

  @Test
  func `counts as its /64 with IPv6, and as itself with IPv4`() {
    let address = ClientAddress("2001:db8:1:2::1")
    #expect(address?.source == ClientAddress("2001:db8:1:2:ffff:ffff:ffff:ffff")?.source)
    #expect(address?.source != ClientAddress("2001:db8:1:3::1")?.source)
    #expect(address?.source.description == "2001:db8:1:2::")
    #expect(ClientAddress("::ffff:192.0.2.1")?.source == ClientAddress("192.0.2.1"))
    #expect(ClientAddress("192.0.2.1")?.source != ClientAddress("192.0.2.2")?.source)
  }

  @Test(arguments: [
    ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.1", false),
    ("10.1.2.3/8", "10.9.9.9", true), ("10.0.0.0/8", "::ffff:10.1.1.1", true),
    ("192.0.2.1", "192.0.2.1", true), ("192.0.2.1", "192.0.2.2", false),
    ("192.0.2.1/32", "192.0.2.1", true),
    ("0.0.0.0/0", "8.8.8.8", true), ("0.0.0.0/0", "2001:db8::1", false),
    ("::/0", "2001:db8::1", true), ("::/0", "8.8.8.8", false),
    ("2001:db8::/33", "2001:db8:7fff::1", true), ("2001:db8::/33", "2001:db8:8000::1", false),
    ("::ffff:10.0.0.0/104", "10.1.1.1", true), ("::1/128", "::1", true), ("::1", "::2", false),
  ])
  func `is in a network or is not`(text: String, address: String, isIn: Bool) throws {
    let network = try #require(ClientAddress.Network(text))
    #expect(network.contains(try #require(ClientAddress(address))) == isIn)
  }

  @Test(arguments: [
    "", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/+8", "10/8", "a/8",
    "1.2.3.4/8/8",
  ])
  func `is in no network that is none`(text: String) { #expect(ClientAddress.Network(text) == nil) }
}
