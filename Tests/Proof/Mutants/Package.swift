// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "mutants",
  platforms: [.macOS(.v15)],
  dependencies: [.package(url: "https://github.com/swiftlang/swift-syntax", exact: "603.0.1")],
  targets: [
    .executableTarget(
      name: "mutants",
      dependencies: [
        .product(name: "SwiftOperators", package: "swift-syntax"),
        .product(name: "SwiftParser", package: "swift-syntax"),
        .product(name: "SwiftSyntax", package: "swift-syntax"),
      ],
      path: "Sources")
  ]
)
