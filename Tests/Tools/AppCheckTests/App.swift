import Crypto
import Foundation
import NextcloudProxy
import Platform
import Providers
import Sealing
import TestSupport

@testable import AppCheck
@testable import Operator

/// An app of our own making: files in the shape of a real app's, in a folder or in a zip archive.
struct App {
  /// The contents by path.
  var files: [String: Data] = [:]

  init(_ files: [String: String] = [:]) { self.files = files.mapValues { Data($0.utf8) } }

  subscript(name: String) -> String {
    get { files[name].map { String(decoding: $0, as: UTF8.self) } ?? "" }
    set { files[name] = Data(newValue.utf8) }
  }

  func write(to folder: URL) throws {
    for (name, data) in files {
      let file = folder.appending(path: name)
      try FileManager.default.createDirectory(
        at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try data.write(to: file)
    }
  }

  /// What the check says of the source.
  func check(_ service: AppCheck.Service) throws -> AppCheck.Report {
    try withTemporaryFolder { folder in
      try write(to: folder)
      return try AppCheck(service: service).report(on: .init(path: folder.path))
    }
  }

  /// What the check says of the files as a built package.
  func checkPackage(_ service: AppCheck.Service) throws -> AppCheck.Report {
    try App.checkPackage(zip, service)
  }

  static func checkPackage(_ bytes: Data, _ service: AppCheck.Service) throws -> AppCheck.Report {
    try withTemporaryFolder { folder in
      let file = folder.appending(path: "app.zip")
      try bytes.write(to: file)
      return try AppCheck(service: service).report(on: .init(path: file.path))
    }
  }

  /// A zip archive with the files as they are.
  var zip: Data { App.zip(files.sorted { $0.key < $1.key }.map { (Data($0.key.utf8), $0.value) }) }

  static func zip(_ files: [(name: Data, data: Data)]) -> Data {
    var (archive, directory) = (Data(), Data())
    for (name, data) in files {
      let offset = archive.count
      // Version, flags, method, time, date, checksum (not read), sizes, lengths of name and extra field.
      let common =
        [20, 0, 0, 0, 0].littleEndian16 + [0, data.count, data.count].littleEndian32
        + [name.count, 0].littleEndian16
      archive += [0x0403_4B50].littleEndian32 + common + name + data
      directory += [0x0201_4B50].littleEndian32 + [20].littleEndian16 + common
      directory += [0, 0, 0].littleEndian16 + [0, offset].littleEndian32 + name
    }
    let count = files.count
    return archive + directory + [0x0605_4B50].littleEndian32 + [0, 0, count, count].littleEndian16
      + [directory.count, archive.count].littleEndian32 + [0].littleEndian16
  }
}

extension [Int] {
  private func littleEndian(_ size: Int) -> Data {
    Data(flatMap { number in (0..<size).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } })
  }
  var littleEndian16: Data { littleEndian(2) }
  var littleEndian32: Data { littleEndian(4) }
}

extension AppCheck.Report {
  var faults: [AppCheck.Finding] { findings.filter { $0.standing == .fault } }
  /// The findings that are not good, as `standing check place`, for messages of failing tests.
  var bad: [String] {
    findings.filter { $0.standing != .good }.map {
      "\($0.standing) \($0.check) \($0.file ?? ""):\($0.line ?? 0): \($0.found)"
    }
  }
}

extension AppCheck.Service {
  static let active = BouncerKeyPair()
  static let retired = BouncerKeyPair()

  /// A service with two bouncer keys, one key of Apple's for Zulip's app and Nextcloud's, and one Firebase project.
  static func example(
    environment: APNsCredential.Environment = .production, publicURL: String? = "https://push.example.org",
    apps: String = Self.apps
  ) throws -> AppCheck.Service {
    AppCheck.Service(
      bouncerKeys: BouncerKeyring([
        .init(pair: active, state: .active), .init(pair: retired, state: .retired),
      ]),
      credentials: Credentials(
        apns: [
          APNsCredential(
            name: "main", keyID: "KEY4567890", teamID: "TEAM567890", privateKey: "",
            topics: ["org.example.chat", "org.example.talk", "org.example.files"], environment: environment)
        ],
        fcm: [
          FCMCredential(
            name: "default", projectID: "example-chat", clientEmail: "", privateKeyID: "", privateKey: "",
            tokenURI: URL(fileURLWithPath: "/"))
        ], defaultProject: "example-chat"),
      publicURL: publicURL, apps: try NextcloudApps(own: NextcloudApp.read(Array(apps.utf8))))
  }

  static let apps = #"""
    [{"name": "Example Talk", "user_agent": "\\(iOS\\) Nextcloud-Talk", "kind": "talk", "platform": "ios",
      "apns_topic": "org.example.talk"},
     {"name": "Example Files", "user_agent": "\\(iOS\\) (Nextcloud-iOS/.*-)?Example-Files", "kind": "files", "platform": "ios",
      "apns_topic": "org.example.files"}]
    """#
}

/// The files of an archive of Android's tools, read by the program's own reader.
struct ZipReader {
  private let archive: ZipArchive

  init(_ data: Data) throws { archive = try ZipArchive(data, Budget()) }

  subscript(name: String) -> Data? { (try? archive.contents(of: Name(name))) ?? nil }
}
