// swift-tools-version: 6.2
import PackageDescription

/// Packages from outside and the products of them that are used. Pinned: one commit builds one program.
let libraries: [(repository: String, version: Version, products: [String])] = [
  ("apple/swift-argument-parser", "1.8.2", ["ArgumentParser"]),
  ("apple/swift-asn1", "1.7.4", ["SwiftASN1"]),
  ("apple/swift-certificates", "1.21.1", ["X509"]),
  ("apple/swift-crypto", "4.5.2", ["Crypto", "CryptoExtras"]),
  ("apple/swift-http-types", "1.8.0", ["HTTPTypes"]),
  ("apple/swift-log", "1.16.2", ["Logging"]),
  ("apple/swift-metrics", "2.13.0", ["CoreMetrics", "Metrics", "MetricsTestKit"]),
  (
    "apple/swift-nio", "2.101.2",
    ["NIOCore", "NIOEmbedded", "NIOFoundationCompat", "NIOHTTP1", "NIOPosix", "NIOTLS"]
  ),
  ("apple/swift-nio-extras", "1.35.2", ["NIOExtras", "NIOHTTPTypes"]),
  ("apple/swift-nio-http2", "1.46.0", ["NIOHPACK", "NIOHTTP2"]),
  ("apple/swift-nio-ssl", "2.37.6", ["NIOSSL"]),
  (
    "hummingbird-project/hummingbird", "2.28.1",
    ["Hummingbird", "HummingbirdTesting", "HummingbirdTLS"]
  ),
  ("jpsim/Yams", "6.2.2", ["Yams"]),
  ("swift-server/async-http-client", "1.37.0", ["AsyncHTTPClient"]),
  ("swift-server/swift-service-lifecycle", "2.13.0", ["ServiceLifecycle", "UnixSignals"]),
]

/// What a target needs, by name: products of `libraries`, or targets of this package.
func dependencies(_ names: [String]) -> [Target.Dependency] {
  names.map { name in
    guard let library = libraries.first(where: { $0.products.contains(name) }) else {
      return .byName(name: name)
    }
    return .product(name: name, package: String(library.repository.split(separator: "/")[1]))
  }
}

func module(_ name: String, _ needs: String..., path: String? = nil, embed: [String] = []) -> Target {
  .target(
    name: name, dependencies: dependencies(needs), path: path, resources: embed.map { .embedInCode($0) })
}

func program(_ name: String, _ needs: String..., path: String? = nil) -> Target {
  .executableTarget(name: name, dependencies: dependencies(needs), path: path)
}

func tests(_ name: String, _ needs: String..., path: String? = nil, embed: [String] = []) -> Target {
  .testTarget(
    name: name, dependencies: dependencies(needs), path: path, resources: embed.map { .embedInCode($0) })
}

/// What `push-bouncer --version` says: Scripts/build and Scripts/package set it. Only a file of C depends on it, so
/// that it makes nothing be built anew where it is not set.
let commit = Context.environment["PUSH_BOUNCER_COMMIT"].map {
  CSetting.define("PUSH_BOUNCER_COMMIT", to: "\"\($0)\"")
}

// A module imports only modules above it in this list: the list is the architecture.
let package = Package(
  name: "push-bouncer",
  platforms: [.macOS(.v15)],
  products: [.executable(name: "push-bouncer", targets: ["push-bouncer"])],
  dependencies: libraries.map { .package(url: "https://github.com/\($0.repository)", exact: $0.version) },
  targets: [
    // Layer 0: system libraries, and what the build is told.
    .systemLibrary(name: "CPostgreSQL", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
    .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),
    .target(name: "CVersion", cSettings: commit.map { [$0] }),

    // Layer 1: know nothing of the domain and, but for `Timing` and `KeyExchange`, nothing of each other (`HTTP` tells SQL's errors).
    module("Timing"),
    module("KeyExchange", "Metrics", "NIOCore"),
    module("Sealing", "CSodium", "Crypto", "CryptoExtras"),
    module("SQL", "CPostgreSQL", "CSQLite", "Timing", "Crypto"),
    module("Migrations", "SQL", path: "Migrations", embed: ["0001_schema.sql"]),
    module(
      "Providers", "KeyExchange", "Timing", "AsyncHTTPClient", "Crypto", "CryptoExtras", "Logging", "Metrics",
      "NIOCore",
      "NIOExtras", "NIOFoundationCompat", "NIOHPACK", "NIOHTTP1", "NIOPosix", "NIOSSL", "NIOTLS"),
    module(
      "HTTP", "KeyExchange", "SQL", "Crypto", "HTTPTypes", "Hummingbird", "Logging", "Metrics", "NIOCore",
      "NIOHTTP1", "NIOHTTPTypes", "NIOPosix", "NIOSSL", "ServiceLifecycle"),

    // Layer 2: the domain.
    module("Registrations", "Providers", "Sealing", "SQL", "Timing", "Crypto"),

    // Layer 3: what becomes of a notification.
    module(
      "Delivery", "Providers", "Registrations", "Sealing", "SQL", "Timing", "Crypto", "Logging", "Metrics"),

    // Layer 4: what the operator has.
    module(
      "Operations", "CVersion", "Delivery", "HTTP", "KeyExchange", "Migrations", "Providers", "Registrations",
      "Sealing",
      "SQL", "Timing", "CoreMetrics", "Crypto", "HTTPTypes", "Hummingbird", "Logging", "Metrics", "NIOCore",
      "NIOSSL", "ServiceLifecycle", "UnixSignals", "Yams", embed: ["Keys/README.md"]),
    module("ZulipImport", "HTTP", "Migrations", "Registrations", "Sealing", "SQL"),

    // Layer 5: one wire each, which read their settings from the configuration.
    module(
      "ZulipBouncer", "Delivery", "HTTP", "Operations", "Providers", "Registrations", "Sealing", "SQL",
      "AsyncHTTPClient",
      "HTTPTypes", "Hummingbird", "Logging", "Metrics", "NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL"),
    module(
      "ZulipServer", "HTTP", "Operations", "Providers", "Registrations", "Sealing", "SQL", "Timing",
      "ZulipBouncer",
      "AsyncHTTPClient", "HTTPTypes", "Hummingbird", "Logging", "NIOCore", "NIOHTTP1"),
    module(
      "NextcloudProxy", "Delivery", "HTTP", "Operations", "Providers", "Registrations", "Sealing", "SQL",
      "Timing",
      "Crypto", "HTTPTypes", "Hummingbird", "Logging", "NIOCore", "NIOHTTP1"),
    module(
      "NextcloudServer", "Delivery", "HTTP", "NextcloudProxy", "Operations", "Providers", "Registrations",
      "Sealing",
      "SQL", "Timing", "AsyncHTTPClient", "Crypto", "HTTPTypes", "Hummingbird", "Logging", "NIOCore",
      "NIOHTTP1"),

    // Layer 6: what needs several wires: apps compared with the service, and the one place where the parts are put
    // together.
    module("AppCheck", "CZlib", "HTTP", "NextcloudProxy", "Operations", "Providers", "Sealing", "Crypto"),
    module(
      "Server", "Delivery", "HTTP", "Migrations", "NextcloudProxy", "NextcloudServer", "Operations",
      "Providers", "Registrations", "Sealing", "SQL", "Timing", "ZulipBouncer", "ZulipServer",
      "AsyncHTTPClient", "HTTPTypes", "Hummingbird", "Logging", "Metrics", "NIOCore", "NIOHTTP1",
      "NIOHTTPTypes", "NIOPosix", "NIOSSL", "ServiceLifecycle", "UnixSignals"),

    // Beside the layers: Apple and Google as tests, demo and benchmarks meet them, and what demo plays.
    module(
      "ProviderSimulator", "HTTP", "Providers", "Crypto", "CryptoExtras", "NIOCore", "NIOHPACK",
      "NIOHTTP1", "NIOHTTP2", "NIOPosix", "NIOSSL", "NIOTLS", "ServiceLifecycle", "SwiftASN1", "X509"),
    module(
      "Demo", "HTTP", "Operations", "Providers", "ProviderSimulator", "Sealing", "Server", "AsyncHTTPClient",
      "Crypto", "Logging", "NIOCore", "NIOHTTP1", "NIOSSL", "ServiceLifecycle", "UnixSignals"),

    // Layer 7: commands.
    program(
      "push-bouncer", "AppCheck", "Delivery", "Demo", "HTTP", "Migrations", "NextcloudProxy", "Operations",
      "Providers",
      "ProviderSimulator", "Registrations", "Sealing", "Server", "SQL", "ZulipImport", "ZulipServer",
      "ArgumentParser", "AsyncHTTPClient", "Crypto", "Logging", "NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL",
      "ServiceLifecycle", "UnixSignals"),

    // A world in which time and chance are virtual; see Documentation/SimulatedWorld.md.
    .target(name: "CVirtualTime", path: "Tests/SimulatedWorld/CVirtualTime"),
    program(
      "simulated-world", "CVirtualTime", "Delivery", "HTTP", "Migrations", "NextcloudProxy",
      "NextcloudServer", "Operations", "Providers", "Registrations", "Sealing", "Server", "SQL",
      "ZulipBouncer", "ZulipServer", "Crypto", "HTTPTypes", "Hummingbird", "Logging", "NIOCore",
      "NIOEmbedded", "NIOHPACK", path: "Tests/SimulatedWorld/World"),

    // Tests, what they share, and benchmarks.
    module(
      "TestSupport", "Crypto", "CryptoExtras", "HTTPTypes", "Hummingbird", "HummingbirdTLS", "Logging",
      "NIOSSL", "ServiceLifecycle", "SwiftASN1", "X509",
      path: "Tests/Support/TestSupport"),
    module("TestDatabase", "Migrations", "SQL", "TestSupport", path: "Tests/Support/TestDatabase"),
    module(
      "TestStore", "Registrations", "Sealing", "SQL", "TestDatabase", "TestSupport",
      path: "Tests/Support/TestStore"),
    module(
      "TestService", "HTTP", "Operations", "Server", "SQL", "TestDatabase", "TestSupport", "ZulipBouncer",
      "ZulipServer", "HTTPTypes", "Hummingbird", "HummingbirdTesting", "Logging", "NIOCore",
      "ServiceLifecycle", path: "Tests/Support/TestService"),
    tests("WorldTests"),
    tests("TimingTests", "Timing"),
    tests("SealingTests", "Sealing", "Crypto", "CryptoExtras"),
    tests("SQLTests", "Migrations", "SQL", "TestDatabase", "TestSupport"),
    tests(
      "ProvidersTests", "Providers", "TestSupport", "Timing", "AsyncHTTPClient",
      "Crypto", "CryptoExtras", "Logging", "MetricsTestKit", "NIOCore", "NIOEmbedded", "NIOHPACK",
      "NIOHTTP1", "NIOHTTP2", "NIOPosix", "NIOSSL"),
    tests(
      "HTTPTests", "HTTP", "TestSupport", "HTTPTypes", "Hummingbird", "HummingbirdTesting", "NIOCore",
      "NIOEmbedded"),
    tests(
      "RegistrationsTests", "Delivery", "Migrations", "NextcloudProxy", "NextcloudServer", "Providers",
      "Registrations",
      "Sealing", "SQL", "TestDatabase", "TestStore", "TestSupport", "ZulipServer"),
    tests(
      "DeliveryTests", "Delivery", "Operations", "Providers", "ProviderSimulator", "Registrations",
      "Sealing", "SQL", "TestDatabase", "TestSupport", "Timing", "Logging", "NIOCore"),
    tests(
      "ZulipBouncerTests", "Delivery", "HTTP", "Operations", "Providers", "ProviderSimulator",
      "Registrations", "Sealing", "Server", "SQL", "TestService", "TestStore", "TestSupport",
      "ZulipBouncer", "HTTPTypes", "Hummingbird", "Logging", "NIOCore"),
    tests(
      "ZulipServerTests", "HTTP", "Operations", "Providers", "ProviderSimulator", "Registrations",
      "Sealing", "Server", "SQL", "TestDatabase", "TestService", "TestStore", "TestSupport", "Timing",
      "ZulipBouncer", "ZulipServer", "HTTPTypes", "Hummingbird", "HummingbirdTesting", "Logging", "NIOCore"),
    tests(
      "NextcloudTests", "Delivery", "HTTP", "NextcloudProxy", "NextcloudServer", "Operations", "Providers",
      "ProviderSimulator", "Registrations", "Sealing", "Server", "SQL", "TestDatabase", "TestService",
      "TestStore", "TestSupport", "ZulipServer", "AsyncHTTPClient", "Crypto", "HTTPTypes", "Hummingbird",
      "HummingbirdTesting", "Logging", "NIOCore", "NIOHTTP1", "NIOSSL", embed: ["vectors.json"]),
    tests(
      "OperationsTests", "Delivery", "HTTP", "KeyExchange", "Migrations", "NextcloudProxy", "NextcloudServer",
      "Operations", "Providers", "ProviderSimulator", "Registrations", "Sealing", "SQL", "TestDatabase",
      "TestSupport", "CoreMetrics", "Crypto", "CryptoExtras", "HTTPTypes", "Hummingbird",
      "HummingbirdTesting", "Logging", "Metrics", "NIOCore"),
    tests(
      "AppCheckTests", "AppCheck", "NextcloudProxy", "Operations", "Providers", "Sealing", "TestSupport",
      "Crypto",
      embed: ["talk.apk", "talk-protocol-buffers.apk"]),
    tests(
      "ZulipImportTests", "Registrations", "Sealing", "SQL", "TestDatabase", "TestSupport",
      "ZulipImport", embed: ["zulip.sql"]),
    tests(
      "ProviderSimulatorTests", "ProviderSimulator", "TestSupport", "AsyncHTTPClient", "Crypto",
      "CryptoExtras",
      "NIOCore", "NIOHPACK", "NIOHTTP1", "NIOHTTP2", "NIOPosix", "NIOSSL"),
    tests(
      "ServerTests", "HTTP", "Operations", "ProviderSimulator", "Registrations", "Sealing", "Server", "SQL",
      "TestService",
      "TestSupport", "ZulipBouncer", "Crypto", "HTTPTypes", "Hummingbird", "Logging", "NIOCore",
      "NIOEmbedded", "NIOHTTPTypes", "NIOPosix", "NIOSSL", "ServiceLifecycle", "Yams"),
    tests(
      "push-bouncerTests", "Demo", "HTTP", "Migrations", "Operations", "Providers", "ProviderSimulator",
      "push-bouncer", "Sealing", "Server", "SQL", "TestDatabase", "TestSupport", "ZulipServer",
      "AsyncHTTPClient", "Crypto", "Logging", "NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL", "ServiceLifecycle"),
    program("database-bench", "SQL", path: "Benchmarks/DatabaseBench"),
    module(
      "Fuzzing", "HTTP", "NextcloudProxy", "NextcloudServer", "Operations", "Providers", "Sealing",
      "ZulipBouncer", "ZulipImport", "Crypto", "HTTPTypes", "Hummingbird", "Logging", "NIOCore",
      "NIOEmbedded", "NIOHPACK", "NIOHTTP1", path: "Tests/Fuzzing/Fuzzing"),
    tests("FuzzingTests", "Fuzzing", path: "Tests/Fuzzing/FuzzingTests"),
  ]
)

for target in package.targets where target.type != .system {
  target.swiftSettings = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
  ]
}

// Scripts/fuzz sets it, and builds as for a release, but with the checks that a release leaves out. Only our own code is
// instrumented: fuzzing looks for ways through it alone, and is several times as fast.
if Context.environment["PUSH_BOUNCER_FUZZ"] != nil {
  // libFuzzer has the entry point of this program, which nothing but Scripts/fuzz can therefore link.
  let fuzz = program("fuzz", "Fuzzing", path: "Tests/Fuzzing/Fuzzer")
  fuzz.linkerSettings = [.unsafeFlags(["-sanitize=fuzzer"])]
  fuzz.swiftSettings = package.targets.last?.swiftSettings
  package.targets.append(fuzz)
  for target in package.targets where target.type != .system {
    target.swiftSettings?.append(
      .unsafeFlags(["-sanitize=fuzzer", "-enable-testing"]))
  }
}
