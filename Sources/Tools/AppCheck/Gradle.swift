internal import Settings

/// What an Android app's build file says, as far as its blocks go: `applicationId`, flavours, texts that it adds to the
/// resources. It is read, not run.
struct Gradle {
  /// What is set in a block.
  private struct Setting {
    /// `android`, `productFlavors`, `gplay`
    let blocks: [Name]
    let key: Name
    /// nil if it could not be worked out.
    let text: Name?
    let line: Int?
  }

  let file: Name
  private var settings: [Setting] = []
  /// In the order in which they are declared.
  private(set) var flavors: [Name] = []
  /// Texts that `resValue` adds: the block's name, the text's, and the text.
  private(set) var texts: [(block: Name, name: Name, value: Value)] = []
  /// Where the plugin is applied that reads `google-services.json`; nil if it is not.
  private(set) var googleServices: Int?

  init(_ code: Code, _ budget: Budget) throws {
    file = code.file
    // Each open bracket, and the name of its block if it has one.
    var open: [(isBlock: Bool, name: Name)] = []
    for index in code.tokens.indices {
      switch code[mark: index] {
      case UInt8(ascii: "{"):
        let name = Self.name(code, before: index)
        let outer = open.filter(\.isBlock).map(\.name)
        if outer.last == "productFlavors", !name.bytes.isEmpty { flavors.append(name) }
        guard open.count < Budget.depth else { throw Budget.tooDeep }
        open.append((true, name))
      case UInt8(ascii: "("), UInt8(ascii: "["):
        guard open.count < Budget.depth else { throw Budget.tooDeep }
        open.append((false, ""))
      case UInt8(ascii: "}"), UInt8(ascii: ")"), UInt8(ascii: "]"): _ = open.popLast()
      default: break
      }
      guard code.kind(index) == .word else {
        if code.kind(index) == .text, code[index] == "com.google.gms.google-services" {
          noteGoogleServices(code, index)
        }
        continue
      }
      switch code[index] {
      case "applicationId", "applicationIdSuffix":
        guard
          code.kind(index - 1) != .mark || code.line(index - 1) != code.line(index)
            || code[mark: index - 1] == UInt8(ascii: "{")
        else { continue }
        // `applicationId = "..."`, `applicationId "..."`, `applicationId("...")`
        let start =
          [UInt8(ascii: "="), UInt8(ascii: "(")].contains(code[mark: index + 1]) ? index + 2 : index + 1
        var text: Name?
        if case .text(let found) = try code.constant(at: start) { text = found }
        settings.append(
          Setting(
            blocks: open.filter(\.isBlock).map(\.name), key: code[index], text: text, line: code.line(start)))
      case "resValue":
        let start = code[mark: index + 1] == UInt8(ascii: "(") ? index + 2 : index + 1
        guard code[start] == "string", case .text(let name) = try code.constant(at: start + 2),
          case .text(let text) = try code.constant(at: start + 4)
        else { continue }
        try budget.values(1)
        texts.append(
          (open.last { $0.isBlock }?.name ?? "", name, Value(text, file: file, line: code.line(start + 4))))
      case "google" where code[index + 2] == "services": noteGoogleServices(code, index + 2)
      default: break
      }
    }
    try budget.values(settings.count)
  }

  /// `apply false` only makes a plugin known.
  private mutating func noteGoogleServices(_ code: Code, _ index: Int) {
    let line = code.line(index)
    for next in index + 1..<index + 12 where code.line(next) == line {
      if code[next] == "apply", code[next + 1] == "false" { return }
    }
    googleServices = googleServices ?? line
  }

  /// The name of the block that opens at an index: `release {`, `create("gplay") {`, `register('gplay') {`.
  private static func name(_ code: Code, before index: Int) -> Name {
    if code.kind(index - 1) == .word { return code[index - 1] }
    guard code[mark: index - 1] == UInt8(ascii: ")") else { return "" }
    if code.kind(index - 2) == .text { return code[index - 2] }
    return ""
  }

  /// The flavour that is looked at: the one that is named, or else the one that is published with push.
  ///
  /// - Throws: a ``Fault`` if there is none of that name.
  func flavor(_ name: Name?) throws -> Name? {
    if let name {
      guard flavors.contains(name) else {
        throw Fault(
          key: "--flavor", "names \(name.text), which is no flavour of \(file.text)",
          advice: flavors.isEmpty
            ? "leave it out: there are none" : "name one of \(flavors.map(\.text).joined(separator: ", "))")
      }
      return name
    }
    if flavors.contains("gplay") { return "gplay" }
    return flavors.first { !Self.unpublished.contains($0) } ?? flavors.first
  }
  private static let unpublished: Set<Name> = [
    "generic", "qa", "versionDev", "dev", "beta", "debug", "huawei", "fdroid", "foss",
  ]

  /// An application id as a flavour has it when it is published.
  enum ApplicationID {
    case found(Value)
    case unknown(line: Int?)
    case missing
  }

  func applicationID(of flavor: Name?) -> ApplicationID {
    func last(_ key: Name, _ block: Name, in outer: Name) -> Setting? {
      settings.last {
        $0.key == key && $0.blocks.last == block
          && (outer.bytes.isEmpty || $0.blocks.dropLast().last == outer)
      }
    }
    let own = flavor.flatMap { last("applicationId", $0, in: "productFlavors") }
    guard let setting = own ?? last("applicationId", "defaultConfig", in: "") else { return .missing }
    let suffixes = [
      last("applicationIdSuffix", "defaultConfig", in: ""),
      flavor.flatMap { last("applicationIdSuffix", $0, in: "productFlavors") },
      last("applicationIdSuffix", "release", in: "buildTypes"),
    ].compactMap(\.self)
    guard let id = setting.text, suffixes.allSatisfy({ $0.text != nil }) else {
      return .unknown(line: setting.line)
    }
    let text = suffixes.reduce(id) { text, suffix in
      let part = suffix.text ?? ""
      return text + (part.hasPrefix(".") ? part : "." + part)
    }
    return .found(Value(text, file: file, line: setting.line))
  }
}
