import Foundation
import SQL
import Sealing
import TestSupport
import Testing

extension Mistake {
  static let all: [Mistake] =
    listeners + certificates + keys + settings + databases + others
    + (geteuid() == 0 && FileManager.default.fileExists(atPath: nobody[0]) ? closedToNobody : [])

  private static let listeners: [Mistake] = [
    .init(
      name: "both on one port", arguments: ["--http.port", "47193", "--admin.port", "47193"],
      says: ["admin.port names port 47193, and so does http.port"]),
    .init(
      name: "a foreign address", arguments: ["--http.host", "192.0.2.1"],
      says: ["http.host names 192.0.2.1, which cannot be used: Cannot assign requested address"]),
    .init(
      name: "a foreign address for the operator",
      arguments: ["--admin.host", "192.0.2.1", "--admin.token", "0123456789abcdef"],
      says: ["admin.host names 192.0.2.1"]),
    .init(
      name: "an unknown host", arguments: ["--http.host", "nosuch.invalid"],
      says: ["http.host names nosuch.invalid, which no name server knows"]),
  ]

  private static func tls(_ certificate: String, _ key: String) -> [String] {
    ["--http.tls.certificate_file", certificate, "--http.tls.key_file", key]
  }

  private static let makeCertificates: @Sendable (Workplace) async throws -> Void = { place in
    let (first, second) = (try TestCertificate.makePEM(), try TestCertificate.makePEM())
    try place.write("c.pem", first.certificate)
    try place.write("k.pem", first.key)
    try place.write("other.pem", second.key)
    try place.write("text.pem", "hunter2")
    try place.write("broken.pem", "-----BEGIN CERTIFICATE-----\nhunter2\n-----END CERTIFICATE-----\n")
    try place.write("brokenkey.pem", "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n")
    try place.write(
      "secret.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nhunter2\n-----END ENCRYPTED PRIVATE KEY-----\n")
  }

  private static let certificates: [Mistake] = [
    (
      "no certificate", tls("no.pem", "k.pem"),
      "http.tls.certificate_file names no.pem, which cannot be used: No such file"
    ),
    ("no key", tls("c.pem", "no.pem"), "http.tls.key_file names no.pem, which cannot be used: No such file"),
    ("a folder", tls("Keys", "k.pem"), "names Keys, which cannot be used: Is a directory"),
    ("a certificate that is text", tls("text.pem", "k.pem"), "names text.pem, which is no PEM file"),
    (
      "a key that is text", tls("c.pem", "text.pem"), "http.tls.key_file names text.pem, which is no PEM file"
    ),
    ("a broken certificate", tls("broken.pem", "k.pem"), "broken.pem, whose certificate is damaged"),
    ("a broken key", tls("c.pem", "brokenkey.pem"), "brokenkey.pem, whose key is damaged"),
    ("a key in the certificate's place", tls("k.pem", "c.pem"), "k.pem, which has no certificate in it"),
    ("a certificate in the key's place", tls("c.pem", "c.pem"), "c.pem, which has no private key in it"),
    ("a key with a passphrase", tls("c.pem", "secret.pem"), "secret.pem, whose key has a passphrase"),
    ("another's key", tls("c.pem", "other.pem"), "other.pem, which is not the key of c.pem"),
    (
      "trust roots that are none", ["--providers.ca_file", "text.pem"],
      "providers.ca_file names text.pem, which is no PEM file"
    ),
    ("no trust roots", ["--bouncer.verify_ca_file", "no.pem"], "bouncer.verify_ca_file names no.pem"),
    (
      "no trust roots for proxies", ["--nextcloud.enabled", "true", "--nextcloud.proxies_ca_file", "no.pem"],
      "nextcloud.proxies_ca_file names no.pem"
    ),
  ].map { .init(name: $0.0, arguments: $0.1, says: [$0.2], make: makeCertificates) }

  private static let keys: [Mistake] = [
    .init(
      name: "a storage key that is none", says: ["Keys/storage.key does not hold 32 bytes", "backup"],
      make: { try $0.write("Keys/storage.key", "hunter2") }),
    .init(
      name: "a storage key that is a folder", says: ["Keys/storage.key cannot be used: Is a directory"],
      make: { place in
        let path = place.folder.appending(path: "Keys/storage.key")
        try FileManager.default.removeItem(at: path)
        try FileManager.default.createDirectory(at: path, withIntermediateDirectories: false)
      }),
    .init(
      name: "another storage key", says: ["database.url names sqlite:", "another storage.key"],
      make: { place in
        _ = try await place.run("server", "add", "--hostname", "a.example.org")
        try place.write("Keys/storage.key", String(decoding: StorageKeyFile.generate().utf8, as: UTF8.self))
      }),
    .init(
      name: "a storage key that is lost", says: ["Keys/storage.key", "is missing, and", "backup"],
      make: { place in
        _ = try await place.run("server", "add", "--hostname", "a.example.org")
        try FileManager.default.removeItem(at: place.folder.appending(path: "Keys/storage.key"))
      }),
    .init(
      name: "keys in a file", arguments: ["--keys.directory", "push-bouncer.yaml"],
      says: ["keys.directory names push-bouncer.yaml, which cannot be used: Not a directory"]),
  ]

  private static func yaml(_ text: String, _ says: String...) -> Mistake {
    .init(name: "setting: \(text)", says: says, make: { try $0.write("push-bouncer.yaml", text) })
  }

  private static let settings: [Mistake] = [
    yaml(
      "log:\n  level: info\nhttp:\n  prot: 80\n", "push-bouncer.yaml, line 4: http.prot is no setting"),
    yaml(
      "admin:\n  token: many\nlog.level: [info\n", "push-bouncer.yaml, line ",
      "is no YAML: did not find expected"),
    yaml("delivery:\n  deadline: soon\n", "push-bouncer.yaml, line 2: delivery.deadline must be a duration"),
    yaml("http.max_connections: 0\n", "http.max_connections must be a whole number, at least 1"),
    yaml("http: 80\n", "http is a section, not a value"),
    yaml("http:\n- port: 80\n", "http is a section, not a value"),
    yaml(
      "log:\n  level: info\n\n  level: debug\n",
      "push-bouncer.yaml, line 4: level is there twice, first in line 2; remove one of them"),
    yaml(
      "http.host: https://push.example.org\n", "http.host must be an IP address",
      "without http://, port and brackets"),
    .init(
      name: "setting: UTF-16", says: ["push-bouncer.yaml is UTF-16", "save it as UTF-8"],
      make: { place in
        let text = try #require("http.port: 80\n".data(using: .utf16))
        try text.write(to: place.folder.appending(path: "push-bouncer.yaml"))
      }),
    .init(
      name: "setting: no file", arguments: ["--config", "no.yaml"],
      says: ["no.yaml cannot be used: No such file or directory"]),
    .init(
      name: "setting: a folder", arguments: ["--config", "Keys"],
      says: ["Keys cannot be used: Is a directory"]),
    .init(
      name: "setting: half of TLS", arguments: ["--http.tls.key_file", "k.pem"],
      says: ["http.tls.certificate_file must be set when http.tls.key_file is"]),
  ]

  private static func database(
    _ name: String, _ url: String, _ says: String...,
    make: @escaping @Sendable (Workplace) async throws -> Void = { _ in }
  ) -> Mistake {
    .init(name: name, arguments: ["--database.url", url], says: ["database.url names"] + says, make: make)
  }

  private static let databases: [Mistake] = [
    database("no folder", "sqlite:no/such/x.sqlite", "which cannot be used: No such file or directory"),
    database("a folder for a database", "sqlite:Keys", "sqlite:Keys, which cannot be used: Is a directory"),
    database("no database", "sqlite:x.sqlite", "not a database, or it is damaged") {
      try $0.write("x.sqlite", String(repeating: "this is no database. ", count: 500))
    },
    database("another program's database", "sqlite:x.sqlite", "another program's tables") { place in
      try await place.sqlite("x.sqlite", "CREATE TABLE metadata (a)")
    },
    database("a newer database", "sqlite:push-bouncer.sqlite", "a newer push-bouncer") { place in
      _ = try await place.run("server", "add", "--hostname", "a.example.org")
      try await place.sqlite(
        "push-bouncer.sqlite", "INSERT INTO schema_migrations VALUES (9999, 'future', 'x', 9999, 1)")
    },
    database(
      "PostgreSQL away", "postgres://u:hunter2@127.0.0.1:1/d", "Connection refused",
      "see whether the server runs"),
    database(
      "no socket", "postgres:///d?host=/nowhere", "/nowhere/.s.PGSQL.5432"),
    database(
      "an unknown database server", "postgres://u:hunter2@nosuch.invalid/d", "nosuch.invalid"
    ),
    .init(
      name: "an unknown option", arguments: ["--database.url", "postgres://u:hunter2@h/d?sslmod=require"],
      says: ["database.url has the option sslmod, which PostgreSQL's library does not know"]),
    .init(
      name: "a password that is not encoded", arguments: ["--database.url", "postgres://u:hunter2@x/y@h/d"],
      says: ["database.url must be postgres://USER:PASSWORD@HOST:PORT/NAME", "%40 for @"]),
  ]

  private static let others: [Mistake] = [
    .init(
      name: "a weak token", arguments: ["--backend.token", "hunter2"],
      says: ["backend.token is too easy to guess"]),
    .init(
      name: "an open door", arguments: ["--admin.host", "0.0.0.0"],
      says: ["admin.host is not a loopback address"]),
    .init(
      name: "a proxy with TLS", arguments: ["--providers.proxy", "https://p:1"], says: ["providers.proxy"]),
    .init(
      name: "apps that are none",
      arguments: ["--nextcloud.enabled", "true", "--nextcloud.apps_file", "a.json"],
      says: ["nextcloud.apps_file names a.json: is no JSON: line 1, column 1: h is not expected there"],
      make: { try $0.write("a.json", "hunter2") }),
    .init(
      name: "capabilities that are none",
      arguments: ["--nextcloud.enabled", "true", "--nextcloud.capabilities_file", "c.json"],
      says: [
        "nextcloud.capabilities_file names c.json, which is no JSON: line 2, column 12: h is not expected there",
        "OwnChat.md",
      ],
      make: { try $0.write("c.json", "{\n \"spreed\": hunter2\n}") }),
    .init(
      name: "more capabilities than an answer has room for",
      arguments: ["--nextcloud.enabled", "true", "--nextcloud.capabilities_file", "c.json"],
      says: ["nextcloud.capabilities_file names c.json, which cannot be used: File too large"],
      make: { try $0.write("c.json", String(repeating: " ", count: 1 << 17)) }),
    .init(
      name: "no apps", arguments: ["--nextcloud.enabled", "true", "--nextcloud.apps_file", "no.json"],
      says: ["nextcloud.apps_file names no.json, which cannot be used: No such file"]),
    .init(
      name: "an unknown app", arguments: ["--nextcloud.enabled", "true", "--nextcloud.default_app", "x"],
      says: ["nextcloud.default_app names none of these apps"]),
    .init(
      name: "too few descriptors", says: ["only 100 descriptors", "LimitNOFILE"],
      launcher: ["/usr/bin/prlimit", "--nofile=100:100"]),
  ]

  /// The first port that anybody may open.
  private static let firstOpenPort =
    (try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding: .utf8))
    .flatMap { Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) } ?? 1024

  private static let closedToNobody: [Mistake] = [
    .init(
      name: "a privileged port", arguments: ["--http.port", "81"],
      says: [
        "http.port names port 81 of 127.0.0.1, which cannot be used: Permission denied",
        "CAP_NET_BIND_SERVICE",
      ], launcher: nobody),
    .init(
      name: "a closed certificate", arguments: tls("c.pem", "k.pem"),
      says: [
        "http.tls.certificate_file names c.pem, which cannot be used: Permission denied", "let nobody use it",
      ],
      launcher: nobody, closed: ("c.pem", 0o600), make: makeCertificates),
    .init(
      name: "a closed key", arguments: tls("c.pem", "k.pem"),
      says: ["http.tls.key_file names k.pem, which cannot be used: Permission denied"], launcher: nobody,
      closed: ("k.pem", 0o600), make: makeCertificates),
    .init(
      name: "a closed key folder",
      says: ["keys.directory names Keys, which cannot be used: Permission denied"],
      launcher: nobody, closed: ("Keys", 0o700)),
    .init(
      name: "a closed storage key", says: ["Keys/storage.key cannot be used: Permission denied"],
      launcher: nobody,
      closed: ("Keys/storage.key", 0o600)),
    .init(
      name: "setting: a closed file", says: ["push-bouncer.yaml cannot be used: Permission denied"],
      launcher: nobody,
      closed: ("push-bouncer.yaml", 0o600)),
    .init(
      name: "a closed database", arguments: ["--database.url", "sqlite:x.sqlite"],
      says: ["database.url names sqlite:x.sqlite, which cannot be used: Permission denied"], launcher: nobody,
      closed: ("x.sqlite", 0o644), make: { try $0.write("x.sqlite", "") }),
    .init(
      name: "a closed folder", arguments: ["--database.url", "sqlite:d/x.sqlite"],
      says: ["names sqlite:d/x.sqlite, which cannot be used: Permission denied"], launcher: nobody,
      closed: ("d", 0o755),
      make: { try $0.write("d/.keep", "") }),
    .init(
      name: "a full disk", arguments: ["--database.url", "sqlite:small/x.sqlite"],
      says: ["on a disk that is full", "free some space"],
      launcher: [
        "/usr/bin/unshare", "--mount", "sh", "-c",
        #"mkdir -p small && mount -t tmpfs -o size=64k tmpfs small && exec "$@""#, "sh",
      ]),
  ].filter { $0.name != "a privileged port" || firstOpenPort > 81 }
}

extension Workplace {
  /// Runs a statement on a database of this folder.
  func sqlite(_ file: String, _ sql: String) async throws {
    let database = try await openDatabase(
      url: DatabaseURL(sqlitePath: folder.appending(path: file).path))
    try await database.write { try $0.runScript(sql) }
    await database.close()
  }
}
