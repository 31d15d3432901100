import Foundation
import TestSupport
import Testing

@testable import AppCheck
@testable import Basics

/// Apps that somebody has made to keep the machine of the service busy. Each is small, and an earlier version took minutes,
/// hours or gigabytes for it.
@Suite struct AppBoundsTests {
  /// The fault that an app ends with, or nil; and what it took.
  private func check(_ body: () throws -> AppCheck.Report) -> (fault: Fault?, seconds: Double, megabytes: Int)
  {
    let (start, memory) = (ContinuousClock.now, Self.peak)
    var fault: Fault?
    do { _ = try body() } catch let error as Fault { fault = error } catch { Issue.record("\(error)") }
    let time = (ContinuousClock.now - start).components
    return (fault, Double(time.seconds) + Double(time.attoseconds) / 1e18, Self.peak - memory)
  }

  /// The most memory that this process has had, in MB.
  private static var peak: Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
    return (Int(line.filter(\.isNumber)) ?? 0) >> 10
  }

  /// A binary property list of these objects, the first of which is its root.
  private static func binaryList(_ objects: [[UInt8]]) -> Data {
    var (list, places) = (Data("bplist00".utf8), Data())
    for object in objects {
      places += [UInt8(list.count >> 8), UInt8(list.count & 0xFF)]
      list += object
    }
    let table = list.count
    func number(_ number: Int) -> [UInt8] {
      (0..<8).reversed().map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }
    return list + places + [0, 0, 0, 0, 0, 0, 2, 1] + number(objects.count) + number(0) + number(table)
  }

  @Test func `A property list whose members are the same ones again and again does not grow`() throws {
    // A list of eight lists of eight lists: thirty deep. And one that contains itself.
    let nested: [[UInt8]] = (0..<30).map { [0xA8] + Array(repeating: UInt8(3 + $0), count: 8) }
    let lists = [
      [[0xD1, 1, 2], [0x51, 0x61]] + nested + [[0x51, 0x62]],
      [[0xD1, 1, 2], [0x51, 0x61], [0xA2, 2, 2]],
    ]
    for objects in lists {
      var app = App()
      app.files["Payload/A.app/Info.plist"] = Self.binaryList(objects)
      let result = check { try app.checkPackage(.example()) }
      #expect(result.fault != nil)
      #expect(result.seconds < 20)
      #expect(result.megabytes < 150)
    }
  }

  @Test func `A property list in a property list, without end`() throws {
    var app = App()
    app["Payload/A.app/Info.plist"] = "<plist>" + String(repeating: "<array>", count: 100_000)
    #expect(check { try app.checkPackage(.example()) }.fault?.problem.contains("deep") == true)
    var project = App.talkForIOS
    project["NextcloudTalk.xcodeproj/project.pbxproj"] = "{ a = " + String(repeating: "(", count: 100_000)
    #expect(check { try project.check(.example()) }.fault?.problem.contains("deep") == true)
  }

  @Test func `Resources of a bundle that are nothing but empty members`() throws {
    var app = App(["base/manifest/AndroidManifest.xml": "\n\0"])
    app.files["base/resources.pb"] = Data(
      [UInt8](repeating: 0, count: 30 << 20).enumerated().map { $0.offset & 1 == 0 ? 0x12 : 0 })
    let result = check { try app.checkPackage(.example()) }
    #expect(
      result.fault?.problem.contains("to be looked at") == true, "\(String(describing: result.fault))")
    #expect(result.megabytes < 200)
    #expect(result.seconds < 60)
  }

  @Test func `No more is read than any app has, in however many files`() throws {
    let budget = Budget()
    for _ in 0..<2 { try budget.read(Budget.bytes / 2) }
    #expect(throws: Budget.Exceeded.self) { try budget.read(1) }
  }

  @Test func `A part that is larger than any app's is not unpacked`() throws {
    var app = App(["base/manifest/AndroidManifest.xml": "\n\0"])
    app.files["base/resources.pb"] = Data(count: Budget.part + 1)
    let result = check { try app.checkPackage(.example()) }
    #expect(result.fault?.problem.hasPrefix("has base/resources.pb of more than 32 MB") == true)
    #expect(result.megabytes < 200)
  }

  /// A pool with one text of bytes.
  private static func pool(_ text: [UInt8]) -> Data {
    let length: [UInt8] = [0x80 | UInt8(text.count >> 8), UInt8(text.count & 0xFF)]
    var texts = Data(length + length + text + [0])
    while texts.count % 4 != 0 { texts.append(0) }
    let header = [0x0001, 28].littleEndian16 + [32 + texts.count, 1, 0, 0x100, 32, 0].littleEndian32
    return header + [0].littleEndian32 + texts
  }

  /// A resource table in which `count` entries are all the same one, whose name and text are long.
  private static func table(_ count: Int, length: Int) -> Data {
    let (values, keys) = (
      pool(Array(repeating: 0x76, count: length)), pool(Array(repeating: 0x6B, count: length))
    )
    let entry =
      [8, 0].littleEndian16 + [0].littleEndian32 + [8].littleEndian16 + [0, 3] + [0].littleEndian32
    let start = 84 + 4 * count
    let type =
      [0x0201, 84].littleEndian16 + [start + entry.count].littleEndian32 + [1, 0, 0, 0]
      + [count, start].littleEndian32
      + Data(count: 64 + 4 * count) + entry
    let package =
      [0x0200, 288].littleEndian16 + [288 + keys.count + type.count].littleEndian32 + Data(count: 268)
      + [288].littleEndian32 + Data(count: 8) + keys + type
    return [0x0002, 12].littleEndian16 + [12 + values.count + package.count, 1].littleEndian32 + values
      + package
  }

  @Test(arguments: [(1 << 21, 30_000), (7 << 20, 4)])
  func `A resource table whose entries are all the same one`(count: Int, length: Int) throws {
    var app = App()
    app.files["AndroidManifest.xml"] = [0x0003, 8].littleEndian16 + [8].littleEndian32
    app.files["resources.arsc"] = Self.table(count, length: length)
    let result = check { try app.checkPackage(.example()) }
    #expect(result.fault != nil)
    #expect(result.seconds < 60)
    #expect(result.megabytes < 200)
  }

  @Test func `Names are bytes: marks that have to be put in order cost nothing`() throws {
    let marks = Data(String(repeating: "\u{315}\u{316}", count: 16_000).utf8)
    let zip = App.zip((0..<20).map { (Data("\($0)".utf8) + marks, Data()) })
    let result = check { try App.checkPackage(zip, .example()) }
    #expect(result.fault?.problem == "is no app that this command knows")
    #expect(result.seconds < 5)
  }

  /// Sources in which an expression began to look for its end anew at each place.
  @Test(arguments: [
    ("ios/Flutter/Zulip.xcconfig", String(repeating: "\n", count: 200_000)),
    ("lib/firebase_options.dart", String(repeating: "a = FirebaseOptions(\n", count: 50_000)),
    (
      "lib/firebase_options.dart",
      String(repeating: "kFirebaseOptionsAndroid = FirebaseOptions(\n", count: 50_000)
    ),
    (
      "lib/firebase_options.dart",
      String(repeating: "a", count: 1_000_000) + " = Options(" + String(repeating: "b: 1, ", count: 200_000)
    ),
    ("lib/model/push_device.dart", String(repeating: "/*", count: 500_000)),
    ("lib/model/push_device.dart", "var a = '" + String(repeating: "${", count: 500_000)),
    ("android/app/build.gradle", String(repeating: "id 'com.google.gms.google-services' ", count: 50_000)),
    ("ios/Runner/Info.plist", String(repeating: "<", count: 500_000)),
    ("ios/Runner.xcodeproj/project.pbxproj", String(repeating: "/*", count: 500_000)),
  ])
  func `A source is read once`(file: String, text: String) throws {
    var app = App.zulip
    app[file] = text
    let result = check { try app.check(.example()) }
    #expect(result.seconds < 20)
    #expect(result.megabytes < 200)
  }

  @Test func `Constants that name one another again and again do not grow`() throws {
    var app = App.zulip
    let chain = (0..<8).map { "const a\($0) = '" + String(repeating: "$a\($0 + 1)", count: 500) + "';\n" }
      .joined()
    app["lib/model/push_device.dart"] = "final bouncerPublicKey = base64Decode(a0);\n\(chain)const a8 = '';\n"
    let result = check { try app.check(.example()) }
    #expect(result.seconds < 60)
    #expect(result.megabytes < 200)
    var project = App.talkForIOS
    let settings = (0..<8).map { "A\($0) = \"" + String(repeating: "$(A\($0 + 1))", count: 500) + "\"" }
    project["NextcloudTalk.xcodeproj/project.pbxproj"] = App.xcodeProject([
      .init(name: "Talk", kind: "application", id: "\"$(A0)\"", settings: settings + ["A8 = \"\""])
    ])
    #expect(check { try project.check(.example()) }.seconds < 60)
  }

  @Test func `Thousands of values are not compared one with the other`() throws {
    var app = App.talkForIOS
    app["NextcloudTalk.xcodeproj/project.pbxproj"] = App.xcodeProject(
      (0..<1_500).map { .init(name: "\($0)", kind: "application", id: "org.example.a\($0)") })
    let result = check { try app.check(.example()) }
    #expect(result.fault?.problem.contains("to be looked at") == true)
    #expect(result.seconds < 30)
    let few = (0..<400).map { App.Target(name: "\($0)", kind: "application", id: "org.example.a\($0)") }
    app["NextcloudTalk.xcodeproj/project.pbxproj"] = App.xcodeProject(few)
    let allowed = check { try app.check(.example()) }
    #expect(allowed.fault == nil)
    #expect(allowed.seconds < 30)
  }

  @Test(arguments: AppSourceTests.examples)
  func `A source that is cut off or damaged is read in part`(example: (name: String, app: App)) throws {
    var random = SplitMix(seed: 45)
    for name in example.app.files.keys.sorted() {
      let data = try #require(example.app.files[name])
      var app = example.app
      for _ in 0..<8 where !data.isEmpty {
        var damaged = Array(data)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: damaged.removeLast(Int.random(in: 0..<damaged.count, using: &random))
        case 1: damaged.removeFirst(Int.random(in: 0..<damaged.count, using: &random))
        default:
          for _ in 0..<Int.random(in: 1...6, using: &random) {
            let place = Int.random(in: 0..<damaged.count, using: &random)
            damaged[place] = Array("\"'{}()<>/*#$\\\n:=;&@".utf8).randomElement(using: &random) ?? 0
          }
        }
        app.files[name] = Data(damaged)
        _ = try? app.check(.example())
      }
    }
  }

  @Test(arguments: [
    ":x=", ":x?=", "=", "==", "#", "#if", "#define", "$", "\"", "\"\"\"", "'\\", "/*", "/", "a=\\",
    "a = \"${", "a = @", "#if !",
  ])
  func `The smallest files are read`(text: String) throws {
    for (_, example) in AppSourceTests.examples {
      var app = example
      for name in example.files.keys where !name.hasSuffix(".pbxproj") { app[name] = text }
      _ = try? app.check(.example())
      app["lib/model/push_device.dart"] = text
      _ = try? app.check(.example())
    }
  }
}
