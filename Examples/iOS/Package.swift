// swift-tools-version: 6.2
import PackageDescription

// Apple's systems have what Web Push needs (CryptoKit), and Linux, where the tests run, takes it from swift-crypto. Only sealing
// to a bouncer's key and Zulip's notifications need libsodium, which an app gets with swift-sodium.
#if os(macOS)
  let crypto: [Target.Dependency] = []
  let sodium: [Target.Dependency] = [.product(name: "Clibsodium", package: "swift-sodium")]
  let packages: [Package.Dependency] = [
    .package(url: "https://github.com/jedisct1/swift-sodium", from: "0.9.1")
  ]
  let system: [Target] = []
#else
  let crypto: [Target.Dependency] = [.product(name: "Crypto", package: "swift-crypto")]
  let sodium: [Target.Dependency] = ["CSodium"]
  let packages: [Package.Dependency] = [
    .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2")
  ]
  let system: [Target] = [
    .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])])
  ]
#endif

let package = Package(
  name: "push-bouncer-client",
  platforms: [.iOS(.v15), .macOS(.v12)],
  products: [
    .library(name: "PushBouncerClient", targets: ["PushBouncerClient"]),
    .library(name: "PushBouncerSealing", targets: ["PushBouncerSealing"]),
  ],
  dependencies: packages,
  targets: system + [
    .target(name: "PushBouncerClient", dependencies: crypto),
    .target(name: "PushBouncerSealing", dependencies: ["PushBouncerClient"] + sodium),
    .executableTarget(name: "try-app", dependencies: ["PushBouncerClient", "PushBouncerSealing"]),
    .testTarget(name: "PushBouncerClientTests", dependencies: ["PushBouncerClient", "PushBouncerSealing"]),
  ]
)

for target in package.targets where target.type != .system {
  target.swiftSettings = [
    .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
  ]
}
