import Foundation
import HTTP
import TestSupport
import Testing

/// A working folder of its own, in which the program runs.
struct Workplace {
  let folder: URL
  /// What every command finds in its environment.
  let environment: [String: String]

  /// Runs a test in a new folder, which goes afterwards.
  ///
  /// - Parameter begun: whether `init` has been run there.
  static func test(
    begun: Bool = false, environment: [String: String] = [:], _ body: (Workplace) async throws -> Void
  ) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "program-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let place = Workplace(folder: folder, environment: environment)
    if begun { #expect(try await place.run("init").status == 0) }
    try await body(place)
  }

  /// The result of a command.
  struct Result {
    let status: Int32
    let output: String
    let errors: String

    /// The document of `--json`.
    var json: JSON {
      get throws { try JSON.parse(output) }
    }
  }

  /// Runs a command to its end.
  func run(_ arguments: String..., environment: [String: String] = [:]) async throws -> Result {
    try await run(arguments, environment: environment)
  }

  /// - Parameter launcher: a command that runs the one that follows it.
  func run(
    _ arguments: [String], through launcher: [String] = [], environment: [String: String] = [:]
  ) async throws -> Result {
    let files = try makeFiles()
    let process = prepare(arguments, environment, files, launcher)
    try await withCheckedThrowingContinuation { continuation in
      process.terminationHandler = { _ in continuation.resume() }
      do { try launch(process) } catch { continuation.resume(throwing: error) }
    }
    let result = Result(
      status: process.terminationStatus, output: try String(contentsOf: files.output, encoding: .utf8),
      errors: try String(contentsOf: files.errors, encoding: .utf8))
    if arguments.contains("--json") { try Self.check(result.output, of: arguments) }
    return result
  }

  /// Checks that what a command has printed is as `Documentation/JSON.md` says.
  static func check(_ output: String, of arguments: [String], met: (String) -> Void = { _ in }) throws {
    guard let heading = JSONPage.page.heading(arguments) else {
      return #expect(output.isEmpty, "\(arguments) is not in Documentation/JSON.md")
    }
    // A virtual phone prints a document a line.
    for document in heading.hasPrefix("device phone") ? output.split(separator: "\n") : [output[...]]
    where !document.isEmpty {
      let differences = JSONPage.page.differences(try JSON.parse(String(document)), from: heading, met: met)
      #expect(differences.isEmpty, "not as in Documentation/JSON.md: \(differences)")
    }
  }

  /// Starts the service and waits until both listeners listen; ends it after the test.
  func serve(_ arguments: String..., test: (Running) async throws -> Void) async throws {
    try await serve(arguments, test: test)
  }

  /// - Parameters:
  ///   - launcher: a command that runs the one that follows it.
  ///   - input: what it has as its standard input.
  func serve(
    _ arguments: [String], through launcher: [String] = [], input: FileHandle = .nullDevice,
    test: (Running) async throws -> Void
  ) async throws {
    let ports = ["--http.port", "0", "--admin.port", "0", "--log.format", "json"]
    try await start(["serve"] + ports + arguments, through: launcher, input: input) { running in
      await eventually("listening") { running.port(of: "public") != nil && running.port(of: "admin") != nil }
      try await test(running)
    }
  }

  /// Starts a command that goes on; ends it after the test.
  func start(
    _ arguments: [String], through launcher: [String] = [], input: FileHandle = .nullDevice,
    test: (Running) async throws -> Void
  ) async throws {
    let files = try makeFiles()
    let process = prepare(arguments, [:], files, launcher)
    process.standardInput = input
    try launch(process)
    defer { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }
    try await test(Running(process: process, output: files.output, log: files.errors))
  }

  /// Starts it, and closes what only it writes to: a `Process` keeps that open for ever, and one of very many is given a
  /// descriptor that Foundation has no room for.
  private func launch(_ process: Process) throws {
    try process.run()
    for handle in [process.standardOutput, process.standardError] { try (handle as? FileHandle)?.close() }
  }

  func text(of file: String) throws -> String {
    try String(contentsOf: folder.appending(path: file), encoding: .utf8)
  }

  func write(_ file: String, _ text: String) throws {
    let url = folder.appending(path: file)
    try FileManager.default.createDirectory(
      at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: url)
  }

  func exists(_ file: String) -> Bool {
    FileManager.default.fileExists(atPath: folder.appending(path: file).path)
  }

  private typealias Files = (output: URL, errors: URL)

  /// Files take whatever is written; a pipe that nobody reads would stop the writer.
  private func makeFiles() throws -> Files {
    let logs = folder.appending(path: ".logs")
    try FileManager.default.createDirectory(at: logs, withIntermediateDirectories: true)
    let name = UUID().uuidString
    let files = (logs.appending(path: "\(name).out"), logs.appending(path: "\(name).err"))
    try Data().write(to: files.0)
    try Data().write(to: files.1)
    return files
  }

  private func prepare(
    _ arguments: [String], _ environment: [String: String], _ files: Files, _ launcher: [String] = []
  ) -> Process {
    let process = Process()
    let command = launcher + [Self.executable.path] + arguments
    process.executableURL = URL(filePath: command[0])
    process.arguments = Array(command.dropFirst())
    process.currentDirectoryURL = folder
    // The program has the faults of Scripts/proof/mutants, too, which these variables choose.
    let mutants = ProcessInfo.processInfo.environment.filter { $0.key.hasPrefix("MUTANT") }
    process.environment = environment.merging(self.environment) { mine, _ in mine }
      .merging(["PATH": "/usr/bin:/bin", "HOME": folder.path]) { mine, _ in mine }
      .merging(mutants) { mine, _ in mine }
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = try? FileHandle(forWritingTo: files.output)
    process.standardError = try? FileHandle(forWritingTo: files.errors)
    return process
  }

  /// It is built beside the tests, unless the environment names another: a release build, say.
  static let executable =
    ProcessInfo.processInfo.environment["PUSH_BOUNCER_EXECUTABLE"].map { URL(filePath: $0) }
    ?? URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
    .appending(path: "push-bouncer")
}

extension Trait where Self == Fixture<Workplace> {
  /// A working folder of the test's own.
  ///
  /// - Parameter begun: whether `init` has been run there.
  static func place(begun: Bool = false, environment: [String: String] = [:]) -> Self {
    Fixture { try await Workplace.test(begun: begun, environment: environment, $0) }
  }
}
