package import Basics

/// The settings of the public listener.
package struct HTTPSettings: Sendable {
  package init() {}

  @Setting("http.host", "127.0.0.1", .host("0.0.0.0"), "address of the public listener")
  package var host: String

  @Setting(
    "http.port", "8080", .port(443), "port of the public listener; 0 picks a free one and logs it")
  package var port: Int

  @Setting(
    "http.tls.certificate_file", .file("/etc/ssl/push.example.org.pem"),
    "certificate chain in PEM; with it and its key the listener speaks TLS. A renewed one is reloaded")
  package var certificateFile: String?

  @Setting(
    "http.tls.key_file", .file("/etc/ssl/private/push.example.org.pem"),
    "private key of http.tls.certificate_file, in PEM")
  package var keyFile: String?

  @Setting(
    "http.trusted_proxies", "", .networks,
    "reverse proxies whose X-Forwarded-For is believed: addresses and ranges such as 10.0.0.0/8, comma-separated"
  )
  package var trustedProxies: [ClientAddress.Network]

  @Setting(
    "http.public_url", .address("https://push.example.org"),
    "address by which the outside reaches this service; default: http:// with host and port")
  package var publicURL: String?

  @Setting(
    "http.max_connections", "4096", .count(atLeast: 1, example: 2000),
    "connections at a time; more are closed. Where the limit on descriptors is lower, at most three quarters of that"
  )
  package var maxConnections: Int

  @Setting(
    "http.max_connections_per_address", "256", .count(atLeast: 1, example: 256),
    "connections at a time from one address; an IPv6 /64 counts as one address")
  package var maxConnectionsPerAddress: Int

  @Setting(
    "http.max_body_bytes", "1 MiB", .size,
    "largest body of a request; larger ones are refused with 413. server/analytics and /notifications: 16 MiB"
  )
  package var maxBodyBytes: Int

  @Setting(
    "http.max_bytes_in_flight", "64 MiB", .size,
    "bytes of all bodies in memory, of one address a quarter; as much again each for chat servers' notifications under way, the push proxy's, the Web Push gateway's, and what the kernel has received"
  )
  package var maxBytesInFlight: Int

  @Setting(
    "http.rate_limit.per_address", "100/60s", .rate,
    "calls without credentials, per client address; 0 switches the limit off")
  package var rateLimitPerAddress: RateLimit?

  /// The largest allowed request body, which is that of `server/analytics` and of the push proxy's
  /// `/notifications`.
  package var largestBodyBytes: Int { max(maxBodyBytes, 16 << 20) }

  /// The certificate and key files; nil if the listener does not speak TLS.
  package var tls: CertificateFiles? {
    guard let certificateFile, let keyFile else { return nil }
    return CertificateFiles(certificateFile: certificateFile, keyFile: keyFile)
  }
}

/// PEM files: a certificate chain, and the private key of its first certificate.
package struct CertificateFiles: Sendable {
  package let certificateFile: String
  package let keyFile: String

  package init(certificateFile: String, keyFile: String) {
    self.certificateFile = certificateFile
    self.keyFile = keyFile
  }
}

extension SettingShape<[ClientAddress.Network]> {
  package static var networks: SettingShape {
    .list(
      "addresses and ranges like 10.0.0.0/8 or 2001:db8::/32, comma-separated",
      example: "10.0.0.0/8, 2001:db8::/32"
    ) { ClientAddress.Network($0) }
  }
}
