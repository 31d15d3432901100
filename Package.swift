// swift-tools-version: 6.3
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
  ("apple/swift-nio-extras", "1.35.2", ["NIOExtras"]),
  ("apple/swift-nio-http2", "1.46.0", ["NIOHPACK", "NIOHTTP2"]),
  ("apple/swift-nio-ssl", "2.37.6", ["NIOSSL"]),
  (
    "hummingbird-project/hummingbird", "2.28.1",
    ["Hummingbird", "HummingbirdTesting", "HummingbirdTLS"]
  ),
  ("hummingbird-project/swift-mustache", "2.1.1", ["Mustache"]),
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

/// The targets, in that folder of Sources.
func folder(_ name: String, _ targets: Target...) -> [Target] {
  for target in targets { target.path = "Sources/\(name)/\(target.name)" }
  return targets
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

/// Our modules, by folder of Sources. A module imports only modules above it in this list: the list is the architecture.
let modules: [Target] =
  folder(
    "Base",
    module("Basics", "CVersion", "NIOCore"),
    module("Sealing", "Basics", "CSodium", "Crypto", "CryptoExtras"),
    module("SQL", "CPostgreSQL", "CSQLite", "Basics", "Crypto"),
    module(
      "HTTPClient", "Basics", "AsyncHTTPClient", "Logging", "Metrics", "NIOCore", "NIOExtras", "NIOHPACK",
      "NIOHTTP1", "NIOPosix", "NIOSSL", "NIOTLS"),
    module(
      "HTTP", "HTTPClient", "Basics", "Crypto", "HTTPTypes", "Hummingbird", "Logging", "Metrics", "Mustache",
      "NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL", "ServiceLifecycle"),
    module(
      "Platform", "HTTP", "HTTPClient", "Migrations", "Sealing", "Basics", "SQL", "Hummingbird", "Logging",
      "NIOCore", "NIOSSL"))
  + folder(
    "Domain",
    module(
      "Providers", "HTTPClient", "Sealing", "Basics", "AsyncHTTPClient", "Crypto", "CryptoExtras", "Logging",
      "Metrics",
      "NIOCore", "NIOFoundationCompat", "NIOHPACK", "NIOPosix", "NIOSSL"),
    module(
      "Registrations", "HTTP", "HTTPClient", "Platform", "Providers", "Sealing", "Basics", "SQL", "Logging"),
    module(
      "Delivery", "HTTP", "HTTPClient", "Platform", "Providers", "Registrations", "Sealing", "Basics", "SQL",
      "Crypto", "Logging", "Metrics", "NIOCore"))
  + folder(
    "Wires",
    module(
      "ZulipBouncer", "Platform", "Delivery", "HTTP", "HTTPClient", "Providers", "Registrations", "Sealing",
      "Basics", "SQL", "AsyncHTTPClient", "HTTPTypes", "Hummingbird", "Logging", "Metrics", "NIOCore",
      "NIOHTTP1", "NIOPosix", "NIOSSL"),
    module(
      "ZulipServer", "Platform", "Registrations", "HTTP", "Providers", "Sealing", "Basics", "SQL",
      "ZulipBouncer", "AsyncHTTPClient", "HTTPTypes", "Hummingbird", "Logging", "NIOCore", "NIOHTTP1"),
    module(
      "NextcloudProxy", "Delivery", "HTTP", "HTTPClient", "Platform", "Providers", "Registrations", "Sealing",
      "Basics", "SQL", "Crypto", "CoreMetrics", "HTTPTypes", "Hummingbird", "Logging", "NIOCore", "NIOHTTP1"),
    module(
      "NextcloudServer", "Platform", "Registrations", "Delivery", "HTTP", "HTTPClient", "NextcloudProxy",
      "Providers", "Sealing", "Basics", "SQL", "AsyncHTTPClient", "Crypto", "HTTPTypes", "Hummingbird",
      "Logging", "NIOCore", "NIOHTTP1", embed: ["Templates"]),
    module(
      "WebPushGateway", "Delivery", "HTTP", "HTTPClient", "Platform", "Providers", "Registrations", "Sealing",
      "Basics", "SQL", "Crypto", "HTTPTypes", "Hummingbird", "Logging", "NIOCore"))
  + folder(
    "Service",
    module(
      "Operator", "Registrations", "Delivery", "HTTP", "HTTPClient", "Migrations", "NextcloudProxy",
      "NextcloudServer", "Platform", "Providers", "Sealing", "Basics", "SQL", "ZulipBouncer",
      "WebPushGateway", "ZulipServer", "CoreMetrics", "Crypto", "HTTPTypes", "Hummingbird", "Logging",
      "Metrics", "NIOCore", "Yams", embed: ["Keys/README.md", "Admin/Templates"]),
    module(
      "Server", "Registrations", "Delivery", "HTTP", "HTTPClient", "Migrations", "NextcloudProxy",
      "NextcloudServer", "Operator", "Platform", "Providers", "Sealing", "Basics", "SQL", "ZulipBouncer",
      "WebPushGateway", "ZulipServer", "AsyncHTTPClient", "HTTPTypes", "Hummingbird", "Logging", "NIOCore",
      "NIOPosix", "NIOSSL", "ServiceLifecycle", "UnixSignals"))
  + folder(
    "Tools",
    module(
      "ProviderSimulator", "HTTP", "Providers", "Crypto", "CryptoExtras", "NIOCore", "NIOHPACK", "NIOHTTP1",
      "NIOHTTP2", "NIOPosix", "NIOSSL", "NIOTLS", "ServiceLifecycle", "SwiftASN1", "X509"),
    module(
      "AppCheck", "CZlib", "HTTP", "NextcloudProxy", "Platform", "Providers", "Sealing", "Basics",
      "Crypto", "SwiftASN1"),
    module(
      "ZulipImport", "Basics", "HTTP", "HTTPClient", "Migrations", "Providers", "Registrations", "Sealing",
      "SQL",
      "ZulipBouncer"),
    module(
      "Demo", "HTTP", "Operator", "Providers", "ProviderSimulator", "PushBouncerClient", "Sealing", "Server",
      "Basics", "AsyncHTTPClient", "Crypto", "Logging", "NIOCore", "NIOHTTP1", "NIOSSL", "ServiceLifecycle",
      "UnixSignals"))
  + folder(
    "Service",
    program(
      "push-bouncer", "CMalloc", "ZulipBouncer", "Registrations", "AppCheck", "Delivery", "Demo", "HTTP",
      "HTTPClient",
      "Migrations", "NextcloudProxy", "Operator", "Platform", "Providers", "ProviderSimulator", "Sealing",
      "Server", "Basics", "SQL", "ZulipImport", "ZulipServer", "ArgumentParser", "AsyncHTTPClient",
      "Logging", "NIOCore", "NIOHTTP1", "NIOPosix", "ServiceLifecycle", "UnixSignals"))

let package = Package(
  name: "push-bouncer",
  platforms: [.macOS(.v15)],
  products: [.executable(name: "push-bouncer", targets: ["push-bouncer"])],
  dependencies: libraries.map { .package(url: "https://github.com/\($0.repository)", exact: $0.version) },
  targets: [
    // System libraries, what the build is told, and the schema.
    .systemLibrary(
      name: "CPostgreSQL", path: "Sources/System/CPostgreSQL", pkgConfig: "libpq",
      providers: [.apt(["libpq-dev"])]),
    .systemLibrary(
      name: "CSQLite", path: "Sources/System/CSQLite", pkgConfig: "sqlite3",
      providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(
      name: "CZlib", path: "Sources/System/CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
    .systemLibrary(
      name: "CSodium", path: "Sources/System/CSodium", pkgConfig: "libsodium",
      providers: [.apt(["libsodium-dev"])]),
    .systemLibrary(name: "CMalloc", path: "Sources/System/CMalloc"),
    .target(name: "CVersion", path: "Sources/System/CVersion", cSettings: commit.map { [$0] }),
    module("Migrations", "SQL", path: "Migrations", embed: ["0001_schema.sql", "0002_gateway_bodies.sql"]),

    // The app's half, for apps to take and for our virtual phones; Examples/iOS/Package.swift is the package of an app.
    module("PushBouncerClient", "Crypto", path: "Examples/iOS/Sources/PushBouncerClient"),
    module(
      "PushBouncerSealing", "CSodium", "PushBouncerClient", path: "Examples/iOS/Sources/PushBouncerSealing"),
    program("try-app", "PushBouncerClient", "PushBouncerSealing", path: "Examples/iOS/Sources/try-app"),
    tests(
      "PushBouncerClientTests", "PushBouncerClient", "PushBouncerSealing",
      path: "Examples/iOS/Tests/PushBouncerClientTests"),
  ] + modules + [

    // A world in which time and chance are virtual; see Documentation/Proof/SimulatedWorld.md.
    .target(name: "CVirtualTime", path: "Tests/Proof/SimulatedWorld/CVirtualTime"),
    program(
      "simulated-world", "Basics", "Registrations", "CVirtualTime", "Delivery", "HTTP", "Migrations",
      "NextcloudProxy",
      "NextcloudServer", "Operator", "Platform", "HTTPClient", "Providers", "Sealing", "Server", "SQL",
      "ZulipBouncer", "WebPushGateway", "ZulipServer", "Crypto", "HTTPTypes", "Hummingbird", "Logging",
      "NIOCore", "NIOEmbedded", "NIOHPACK", path: "Tests/Proof/SimulatedWorld/World"),

    // Tests, what they share, and benchmarks.
    module(
      "TestSupport", "PushBouncerClient", "Crypto", "CryptoExtras", "HTTPTypes", "Hummingbird",
      "HummingbirdTLS", "Logging", "NIOCore", "NIOPosix", "NIOSSL", "ServiceLifecycle", "SwiftASN1", "X509",
      path: "Tests/Support/TestSupport"),
    module("TestDatabase", "Migrations", "SQL", "TestSupport", path: "Tests/Support/TestDatabase"),
    module(
      "TestStore", "Basics", "HTTPClient", "Registrations", "Sealing", "SQL", "TestDatabase", "TestSupport",
      path: "Tests/Support/TestStore"),
    module(
      "TestService", "HTTP", "Operator", "Platform", "Server", "SQL", "TestDatabase", "TestSupport",
      "ZulipBouncer", "ZulipServer", "HTTPTypes", "Hummingbird", "HummingbirdTesting", "Logging", "NIOCore",
      "ServiceLifecycle", path: "Tests/Support/TestService"),
    module(
      "TestServers", "TestSupport", "NIOCore", "NIOHPACK", "NIOHTTP2", "NIOPosix", "NIOSSL",
      path: "Tests/Support/TestServers"),
    // What scripts of this repository ask of the modules, and no user needs.
    program(
      "test-tool", "HTTP", "HTTPClient", "Operator", "Platform", "Providers", "Sealing", "Basics",
      "WebPushGateway", "ArgumentParser", "Crypto", "HTTPTypes", path: "Tests/Support/TestTool"),
    tests("WorldTests", path: "Tests/Proof/WorldTests"),
    tests("BasicsTests", "Basics", "TestSupport", "NIOCore", path: "Tests/Base/BasicsTests"),
    tests("SealingTests", "Sealing", "Crypto", "CryptoExtras", path: "Tests/Base/SealingTests"),
    tests("SQLTests", "Migrations", "SQL", "TestDatabase", "TestSupport", path: "Tests/Base/SQLTests"),
    tests(
      "HTTPTests", "Logging", "Basics", "HTTP", "TestSupport", "HTTPTypes", "Hummingbird",
      "HummingbirdTesting", "NIOCore", "NIOEmbedded", path: "Tests/Base/HTTPTests"),
    tests(
      "HTTPClientTests", "HTTPClient", "TestServers", "TestSupport", "Basics", "AsyncHTTPClient", "Logging",
      "NIOCore", "NIOEmbedded", "NIOHPACK", "NIOHTTP1", "NIOHTTP2", "NIOPosix", "NIOSSL",
      path: "Tests/Base/HTTPClientTests"),
    tests(
      "PlatformTests", "HTTP", "Migrations", "Platform", "Sealing", "Basics", "SQL", "TestDatabase",
      "TestSupport", "Logging", path: "Tests/Base/PlatformTests"),
    tests(
      "ProvidersTests", "Basics", "HTTPClient", "Providers", "Sealing", "TestServers", "TestSupport",
      "AsyncHTTPClient",
      "Crypto",
      "CryptoExtras", "Logging", "MetricsTestKit", "NIOCore", "NIOHPACK", "NIOHTTP1", "NIOPosix", "NIOSSL",
      path: "Tests/Domain/ProvidersTests"),
    tests(
      "RegistrationsTests", "Basics", "Platform", "Registrations", "Delivery", "Migrations", "NextcloudProxy",
      "NextcloudServer", "HTTPClient", "Providers", "Sealing", "SQL", "TestDatabase", "TestStore",
      "TestSupport", "ZulipBouncer", "WebPushGateway", "ZulipServer", "HTTPTypes", "NIOCore",
      path: "Tests/Domain/RegistrationsTests"),
    tests(
      "DeliveryTests", "Delivery", "Operator", "Platform", "HTTPClient", "Providers", "ProviderSimulator",
      "Registrations", "Sealing", "SQL", "TestDatabase", "TestSupport", "Basics", "Logging", "NIOCore",
      path: "Tests/Domain/DeliveryTests"),
    tests(
      "ZulipBouncerTests", "Delivery", "HTTP", "Operator", "Platform", "Basics", "HTTPClient", "Providers",
      "ProviderSimulator", "Registrations", "Sealing", "Server", "SQL", "TestService", "TestStore",
      "TestSupport", "ZulipBouncer", "HTTPTypes", "Hummingbird", "Logging", "NIOCore",
      path: "Tests/Wires/ZulipBouncerTests"),
    tests(
      "ZulipServerTests", "Registrations", "HTTP", "Operator", "Providers", "ProviderSimulator", "Sealing",
      "Server", "SQL", "TestDatabase", "TestService", "TestStore", "TestSupport", "Basics", "ZulipBouncer",
      "ZulipServer", "HTTPTypes", "Hummingbird", "HummingbirdTesting", "Logging", "NIOCore",
      path: "Tests/Wires/ZulipServerTests"),
    tests(
      "WebPushGatewayTests", "Basics", "HTTPClient", "Registrations", "HTTP", "ProviderSimulator",
      "Providers",
      "Sealing", "Server", "SQL",
      "TestService", "TestSupport", "WebPushGateway", "ZulipBouncer", "Crypto", "HTTPTypes", "NIOCore",
      path: "Tests/Wires/WebPushGatewayTests"),
    tests(
      "NextcloudTests", "Basics", "Registrations", "Delivery", "HTTP", "NextcloudProxy",
      "NextcloudServer", "Operator", "HTTPClient", "Providers", "ProviderSimulator", "Sealing", "Server",
      "SQL", "TestDatabase", "TestService", "TestStore", "TestSupport", "ZulipServer", "AsyncHTTPClient",
      "Crypto", "HTTPTypes", "Hummingbird", "HummingbirdTesting", "Logging", "MetricsTestKit", "NIOCore",
      "NIOHTTP1", "NIOSSL",
      path: "Tests/Wires/NextcloudTests",
      embed: ["vectors.json"]),
    tests(
      "OperatorTests", "ZulipBouncer", "ZulipServer", "Registrations", "Delivery", "HTTP", "HTTPClient",
      "Migrations", "NextcloudProxy", "NextcloudServer", "Operator", "Platform", "Basics", "Providers",
      "ProviderSimulator", "Sealing", "SQL", "TestDatabase", "TestSupport", "CoreMetrics", "Crypto",
      "CryptoExtras", "HTTPTypes", "Hummingbird", "HummingbirdTesting", "Logging", "NIOCore",
      path: "Tests/Service/OperatorTests"),
    tests(
      "AppCheckTests", "AppCheck", "HTTP", "NextcloudProxy", "Operator", "Platform", "Basics", "Providers",
      "Sealing", "TestSupport", "Crypto", path: "Tests/Tools/AppCheckTests",
      embed: ["talk.apk", "talk-protocol-buffers.apk"]),
    tests(
      "ZulipImportTests", "Providers", "Registrations", "Sealing", "SQL", "TestDatabase", "TestSupport",
      "ZulipImport",
      path: "Tests/Tools/ZulipImportTests",
      embed: ["zulip.sql"]),
    tests(
      "ProviderSimulatorTests", "ProviderSimulator", "TestSupport", "AsyncHTTPClient", "Crypto",
      "CryptoExtras", "NIOCore", "NIOHPACK", "NIOHTTP1", "NIOHTTP2", "NIOPosix", "NIOSSL",
      path: "Tests/Tools/ProviderSimulatorTests"),
    tests(
      "ServerTests", "HTTPClient", "HTTP", "Operator", "Platform", "Basics", "Providers", "ProviderSimulator",
      "Registrations", "Sealing", "Server", "SQL", "TestService", "TestSupport", "ZulipBouncer", "Crypto",
      "HTTPTypes", "Hummingbird", "Logging", "NIOCore", "NIOEmbedded", "NIOHTTP1", "NIOPosix", "NIOSSL",
      "ServiceLifecycle", "Yams", path: "Tests/Service/ServerTests"),
    tests(
      "push-bouncerTests", "Registrations", "Demo", "HTTP", "Migrations", "Operator", "Platform", "Basics",
      "HTTPClient", "Providers", "ProviderSimulator", "push-bouncer", "Sealing", "Server", "SQL",
      "TestDatabase", "TestSupport", "ZulipServer", "AsyncHTTPClient", "Crypto", "Logging", "NIOCore",
      "NIOHTTP1", "NIOPosix", "NIOSSL", "ServiceLifecycle", path: "Tests/Service/push-bouncerTests"),
    program("database-bench", "SQL", path: "Benchmarks/DatabaseBench"),
    program(
      "client-bench", "HTTPClient", "AsyncHTTPClient", "Logging", "NIOCore", "NIOHPACK", "NIOHTTP1",
      "NIOPosix", "NIOSSL", path: "Benchmarks/ClientBench"),
    module(
      "Fuzzing", "HTTP", "NextcloudProxy", "NextcloudServer", "Operator", "Platform", "Basics", "HTTPClient",
      "Providers", "Registrations", "Sealing", "WebPushGateway", "ZulipBouncer", "ZulipImport", "Crypto",
      "HTTPTypes", "Hummingbird", "Logging", "NIOCore", "NIOEmbedded", "NIOHPACK", "NIOHTTP1",
      path: "Tests/Proof/Fuzzing/Fuzzing"),
    tests("FuzzingTests", "Fuzzing", path: "Tests/Proof/Fuzzing/FuzzingTests"),
  ]
)

for target in package.targets where target.type != .system {
  target.swiftSettings = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
  ]
}

// Scripts/proof/fuzz sets it, and builds as for a release, but with the checks that a release leaves out. Only our own code is
// instrumented: fuzzing looks for ways through it alone, and is several times as fast.
if Context.environment["PUSH_BOUNCER_FUZZ"] != nil {
  // libFuzzer has the entry point of this program, which nothing but Scripts/proof/fuzz can therefore link.
  let fuzz = program("fuzz", "Fuzzing", path: "Tests/Proof/Fuzzing/Fuzzer")
  fuzz.linkerSettings = [.unsafeFlags(["-sanitize=fuzzer"])]
  fuzz.swiftSettings = package.targets.last?.swiftSettings
  package.targets.append(fuzz)
  for target in package.targets where target.type != .system {
    target.swiftSettings?.append(
      .unsafeFlags(["-sanitize=fuzzer", "-enable-testing"]))
  }
}
