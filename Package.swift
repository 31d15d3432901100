// swift-tools-version: 6.2
import PackageDescription

let swiftSettings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("InternalImportsByDefault"),
]

// A room imports only rooms below it: the dependency lists are the plan of the house.
let package = Package(
  name: "push-bouncer",
  platforms: [.macOS(.v15)],
  products: [
    .executable(name: "push-bouncer", targets: ["push-bouncer"])
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
    .package(url: "https://github.com/apple/swift-asn1", exact: "1.7.4"),
    .package(url: "https://github.com/apple/swift-certificates", exact: "1.21.1"),
    .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
    .package(url: "https://github.com/apple/swift-http-types", exact: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", exact: "2.13.0"),
    .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-extras", exact: "1.35.2"),
    .package(url: "https://github.com/apple/swift-nio-http2", exact: "1.46.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
    .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
    .package(url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1"),
    .package(url: "https://github.com/jpsim/Yams", exact: "6.2.2"),
    .package(url: "https://github.com/swift-server/async-http-client", exact: "1.37.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
    .package(url: "https://github.com/vapor/jwt-kit", exact: "5.7.1"),
  ],
  targets: [
    // Floor 0: system libraries.
    .systemLibrary(
      name: "CPostgreSQL", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
    .systemLibrary(
      name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),

    // Floor 1: rooms that know nothing of the domain and nothing of each other.
    .target(
      name: "Sealing",
      dependencies: [
        "CSodium",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "CryptoExtras", package: "swift-crypto"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "SQL",
      dependencies: [
        "CPostgreSQL",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "GRDBSQLite", package: "GRDB.swift"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "SQLiteMigrations", dependencies: ["SQL"], path: "Migrations/SQLite",
      resources: [
        .embedInCode("0001_bouncer.sql"), .embedInCode("0002_outbox.sql"), .embedInCode("0003_server.sql"),
        .embedInCode("0004_legacy.sql"), .embedInCode("0005_nextcloud_proxy.sql"),
        .embedInCode("0006_nextcloud_server.sql"), .embedInCode("0007_migration.sql"),
        .embedInCode("0008_nextcloud_notifications.sql"),
        .embedInCode("0009_nextcloud_login_flows.sql"),
        .embedInCode("0010_nextcloud_devices.sql"), .embedInCode("0011_outbox_shares.sql"),
        .embedInCode("0012_held_deaths.sql"),
        .embedInCode("0013_realm_release.sql"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "PostgreSQLMigrations", dependencies: ["SQL"], path: "Migrations/PostgreSQL",
      resources: [
        .embedInCode("0001_bouncer.sql"), .embedInCode("0002_outbox.sql"), .embedInCode("0003_server.sql"),
        .embedInCode("0004_legacy.sql"), .embedInCode("0005_nextcloud_proxy.sql"),
        .embedInCode("0006_nextcloud_server.sql"), .embedInCode("0007_migration.sql"),
        .embedInCode("0008_nextcloud_notifications.sql"),
        .embedInCode("0009_nextcloud_login_flows.sql"),
        .embedInCode("0010_nextcloud_devices.sql"), .embedInCode("0011_outbox_shares.sql"),
        .embedInCode("0012_held_deaths.sql"),
        .embedInCode("0013_realm_release.sql"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Migrations", dependencies: ["PostgreSQLMigrations", "SQL", "SQLiteMigrations"],
      path: "Migrations/Schema", swiftSettings: swiftSettings),
    .target(
      name: "Providers",
      dependencies: [
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Metrics", package: "swift-metrics"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOFoundationCompat", package: "swift-nio"),
        .product(name: "NIOHPACK", package: "swift-nio-http2"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTP2", package: "swift-nio-http2"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "NIOTLS", package: "swift-nio"),
      ],
      swiftSettings: swiftSettings),

    // Floor 2: the domain.
    .target(
      name: "Registrations", dependencies: ["Sealing", "SQL"], swiftSettings: swiftSettings),

    // Floor 3: what becomes of a notification.
    .target(
      name: "Delivery",
      dependencies: [
        "Providers", "Registrations", "Sealing", "SQL",
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOFoundationCompat", package: "swift-nio"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Metrics", package: "swift-metrics"),
      ],
      swiftSettings: swiftSettings),

    // Floor 4: the wires, each on its own, over what they share.
    .target(
      name: "Wire",
      dependencies: [
        "SQL",
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "ZulipBouncer",
      dependencies: [
        "Delivery", "Providers", "Registrations", "SQL", "Sealing", "Wire",
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Metrics", package: "swift-metrics"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
      ],
      swiftSettings: swiftSettings),

    .target(
      name: "ZulipServer",
      dependencies: [
        "Delivery", "Registrations", "SQL", "Sealing", "Wire",
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOFoundationCompat", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
      ],
      swiftSettings: swiftSettings),

    .target(
      name: "Nextcloud",
      dependencies: [
        "Delivery", "Providers", "Registrations", "SQL", "Sealing", "Wire",
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOFoundationCompat", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
      ],
      swiftSettings: swiftSettings),

    // Floor 5: what the operator sees, and what the host application calls.
    .target(
      name: "Backend",
      dependencies: [
        "Registrations", "SQL", "Wire",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Operations",
      dependencies: [
        "Delivery", "Migrations", "Providers", "Registrations", "Sealing", "SQL", "Wire",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Metrics", package: "swift-metrics"),
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "UnixSignals", package: "swift-service-lifecycle"),
        .product(name: "Yams", package: "Yams"),
      ],
      swiftSettings: swiftSettings),

    // Floor 6: commands, and the one place where the parts are put together.
    .executableTarget(
      name: "push-bouncer",
      dependencies: [
        "Backend", "Delivery", "Migrations", "Nextcloud", "Operations", "ProviderSimulator", "Providers",
        "Registrations", "Sealing", "SQL", "Wire", "ZulipBouncer", "ZulipServer",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Metrics", package: "swift-metrics"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOFoundationCompat", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "UnixSignals", package: "swift-service-lifecycle"),
      ],
      swiftSettings: swiftSettings),

    // Beside the house: Apple and Google as tests, demo and benchmarks meet them.
    .target(
      name: "ProviderSimulator",
      dependencies: [
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "CryptoExtras", package: "swift-crypto"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOFoundationCompat", package: "swift-nio"),
        .product(name: "NIOHPACK", package: "swift-nio-http2"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTP2", package: "swift-nio-http2"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "NIOTLS", package: "swift-nio"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "X509", package: "swift-certificates"),
      ],
      swiftSettings: swiftSettings),

    .testTarget(
      name: "SealingTests",
      dependencies: ["Sealing", .product(name: "CryptoExtras", package: "swift-crypto")],
      swiftSettings: swiftSettings),
    // Beside the tests: databases of either engine, and how fast they are.
    .executableTarget(
      name: "database-bench", dependencies: ["SQL"], path: "Tests/Support/DatabaseBench",
      swiftSettings: swiftSettings),
    .executableTarget(
      name: "nextcloud-bench",
      dependencies: [
        "Delivery", "Migrations", "Nextcloud", "Providers", "Registrations", "Sealing", "SQL", "Wire",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
      ],
      path: "Tests/Support/NextcloudBench", swiftSettings: swiftSettings),
    .target(
      name: "TestDatabase", dependencies: ["Migrations", "SQL"], path: "Tests/Support/TestDatabase",
      swiftSettings: swiftSettings),

    .target(
      name: "TestSupport",
      dependencies: [
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "CryptoExtras", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdTLS", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "X509", package: "swift-certificates"),
      ],
      path: "Tests/Support/TestSupport", swiftSettings: swiftSettings),

    .testTarget(
      name: "SQLTests", dependencies: ["Migrations", "SQL", "TestDatabase"], swiftSettings: swiftSettings),
    .testTarget(
      name: "ProvidersTests",
      dependencies: [
        "Providers", "ProviderSimulator",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "CryptoExtras", package: "swift-crypto"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "MetricsTestKit", package: "swift-metrics"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHPACK", package: "swift-nio-http2"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTP2", package: "swift-nio-http2"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "X509", package: "swift-certificates"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "RegistrationsTests",
      dependencies: ["Registrations", "Sealing", "SQL", "TestDatabase"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "DeliveryTests",
      dependencies: [
        "Delivery", "Providers", "ProviderSimulator", "Registrations", "Sealing", "SQL",
        "TestDatabase",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "WireTests",
      dependencies: [
        "TestSupport", "Wire",
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOEmbedded", package: "swift-nio"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "ZulipBouncerTests",
      dependencies: [
        "Delivery", "Providers", "ProviderSimulator", "Registrations", "Sealing", "SQL",
        "TestDatabase", "TestSupport", "Wire", "ZulipBouncer",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "CryptoExtras", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdTLS", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "X509", package: "swift-certificates"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "ZulipServerTests",
      dependencies: [
        "Backend", "Registrations", "Sealing", "SQL", "TestDatabase", "Wire", "ZulipServer",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "NextcloudTests",
      dependencies: [
        "Delivery", "Nextcloud", "Providers", "ProviderSimulator", "Registrations", "Sealing", "SQL",
        "TestDatabase", "TestSupport", "Wire",
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "CryptoExtras", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "HummingbirdTLS", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "X509", package: "swift-certificates"),
      ],
      resources: [.embedInCode("vectors.json")],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "BackendTests",
      dependencies: [
        "Backend", "Registrations", "Sealing", "SQL", "TestDatabase", "Wire",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "OperationsTests",
      dependencies: [
        "Operations", "ProviderSimulator", "Providers", "Registrations", "Sealing", "SQL",
        "Migrations", "TestDatabase", "TestSupport", "Wire",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "CryptoExtras", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Metrics", package: "swift-metrics"),
      ],
      resources: [.embedInCode("ZulipMigration/zulip.sql")],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "ProviderSimulatorTests",
      dependencies: [
        "ProviderSimulator",
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "CryptoExtras", package: "swift-crypto"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHPACK", package: "swift-nio-http2"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTP2", package: "swift-nio-http2"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "push-bouncerTests",
      dependencies: [
        "push-bouncer", "Operations", "ProviderSimulator", "SQL", "Sealing", "TestSupport", "Wire",
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOEmbedded", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
      ],
      swiftSettings: swiftSettings),
  ]
)
