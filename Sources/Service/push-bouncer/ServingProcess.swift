import ArgumentParser
import Foundation
import Glibc
import Operator
import Platform

/// A process of this program that serves on this machine, as `/proc` shows it.
struct ServingProcess {
  let id: Int
  private let user: uid_t
  private let options: GlobalOptions
  /// nil if it cannot be read: `serve` lets nobody but root see it.
  private let workingDirectory: String?
  /// nil likewise.
  private let environment: [String: String]?

  /// All that serve, without those in containers, whose files are not those of this machine.
  static func all() -> [ServingProcess] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
    return names.compactMap(Int.init).sorted().compactMap(Self.init)
  }

  private init?(_ id: Int) {
    guard let commandLine = Self.words(of: id, "cmdline"), commandLine.count > 1,
      URL(filePath: commandLine[0]).lastPathComponent == "push-bouncer", commandLine[1] == "serve",
      let status = try? String(contentsOfFile: "/proc/\(id)/status", encoding: .utf8)
    else { return nil }
    func field(_ name: String) -> [Substring]? {
      status.split(separator: "\n").first { $0.hasPrefix("\(name):") }?.split(separator: "\t").dropFirst()
        .map(\.self)
    }
    // The process ids in nested namespaces, outermost first.
    guard field("NSpid")?.count ?? 1 == 1, let user = field("Uid")?.dropFirst().first.flatMap({ uid_t($0) }),
      let serve = try? PushBouncer.parseAsRoot(SettingArguments.rewrite(Array(commandLine.dropFirst())))
        as? Serve
    else { return nil }
    self.id = id
    self.user = user
    options = serve.options
    workingDirectory = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(id)/cwd")
    environment = Self.words(of: id, "environ").map { words in
      Dictionary(
        words.compactMap { word in
          word.firstIndex(of: "=").map { (String(word[..<$0]), String(word[word.index(after: $0)...])) }
        }, uniquingKeysWith: { first, _ in first })
    }
  }

  /// The texts of one of its files in `/proc`, each of which ends with a NUL; nil if it cannot be read.
  private static func words(of id: Int, _ file: String) -> [String]? {
    guard let bytes = FileManager.default.contents(atPath: "/proc/\(id)/\(file)") else { return nil }
    return bytes.split(separator: 0, omittingEmptySubsequences: false).dropLast().map {
      String(decoding: $0, as: UTF8.self)
    }
  }

  /// Whether it is this user's and has options of its own, and only root may see where it serves from.
  var isUnseen: Bool {
    user == geteuid() && workingDirectory == nil && (options.config != nil || !options.settings.isEmpty)
  }

  /// Whether it serves from this working folder, or with this configuration file.
  func isFromHere(file: String?) -> Bool {
    let here = FileManager.default.currentDirectoryPath
    if let workingDirectory, Self.resolved(workingDirectory) == Self.resolved(here) { return true }
    guard let file, let own = options.config, own.hasPrefix("/") || workingDirectory != nil else {
      return false
    }
    return Self.resolved(own, in: workingDirectory) == Self.resolved(file, in: here)
  }

  private static func resolved(_ path: String, in folder: String? = nil) -> String {
    URL(filePath: path, relativeTo: folder.map { URL(filePath: $0, directoryHint: .isDirectory) })
      .resolvingSymlinksInPath().path
  }

  /// Reads its configuration, as it would read it now, and makes its working folder this process's, since its paths
  /// may be relative.
  ///
  /// - Returns: nil if the configuration cannot be read, or names files of another user than the one it runs as:
  ///   nobody may have root read others' files with a process of their own.
  func configuration() -> Configuration? {
    let here = FileManager.default.currentDirectoryPath
    if let workingDirectory { _ = FileManager.default.changeCurrentDirectoryPath(workingDirectory) }
    let isOwn = geteuid() != 0 && user == geteuid()
    if let (configuration, _) = try? options.readAsCaller(environment: environment),
      isOwn || geteuid() == 0 && FileOwner.owns(user, waysTo: configuration.ownFiles)
    {
      return configuration
    }
    _ = FileManager.default.changeCurrentDirectoryPath(here)
    return nil
  }
}

/// The settings that `doctor` examines.
struct ExaminedSettings {
  let configuration: Configuration
  /// What runs here, if its settings are not those that the options of this command name.
  let finding: Finding?

  /// Without options these are the settings of the process that serves from here, if there is one; with options they
  /// are what the options name.
  static func find(_ options: GlobalOptions) throws -> ExaminedSettings {
    let here = FileManager.default.currentDirectoryPath
    let (own, warnings) = try options.readAsCaller()
    for warning in warnings { printError("warning: \(warning)") }
    let hasOptions = options.config != nil || !options.settings.isEmpty
    var others: [(process: ServingProcess, configuration: Configuration, folder: String)] = []
    let all = ServingProcess.all()
    for process in all where process.isFromHere(file: own.file) {
      guard let configuration = process.configuration() else { continue }
      let folder = FileManager.default.currentDirectoryPath
      _ = FileManager.default.changeCurrentDirectoryPath(here)
      if configuration.differences(from: own).isEmpty && folder == here {
        return .init(configuration: own, finding: nil)
      }
      others.append((process, configuration, folder))
    }
    guard let (process, configuration, folder) = others.first else {
      let unseen = all.filter(\.isUnseen).map { "\($0.id)" }.joined(separator: ", ")
      let finding = Finding.skipped(
        "service",
        "process \(unseen) serves; only root can see whether from here, and with which environment variables")
      return .init(configuration: own, finding: unseen.isEmpty || hasOptions ? nil : finding)
    }
    let differences = configuration.differences(from: own)
    if !hasOptions && others.count == 1 {
      _ = FileManager.default.changeCurrentDirectoryPath(folder)
      let finding = Finding.good(
        "service", "process \(process.id) serves with \(text(differences)): these settings are checked"
      )
      return .init(configuration: configuration, finding: differences.isEmpty ? nil : finding)
    }
    let processes = others.map { "\($0.process.id)" }.joined(separator: ", ")
    return .init(
      configuration: own,
      finding: .skipped(
        "service",
        others.count == 1
          ? "process \(processes) serves from here with \(text(differences)); the settings of this command line are checked instead"
          : "processes \(processes) serve from here with other settings: name those of one (--config, --http-port ...)"
      ))
  }

  /// At most eight of them.
  private static func text(_ differences: [(key: String, value: String)]) -> String {
    let shown = differences.prefix(8).map { "\($0.key) \($0.value.isEmpty ? "empty" : $0.value)" }
    let left = differences.count - shown.count
    return (shown + (left > 0 ? ["\(left) more"] : [])).joined(separator: ", ")
  }
}
