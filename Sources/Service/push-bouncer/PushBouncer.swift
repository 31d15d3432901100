import ArgumentParser
import Basics
import CMalloc
import Demo
import Foundation
import Glibc
import Logging
import Operator
import Platform

@main
enum Program {
  /// Runs the command on other threads, while the main thread only waits. An asynchronous `main` would let
  /// the main thread exit, and that thread would keep root's rights when root becomes another user.
  static func main() {
    // Swift's threads ask for priorities that few processes may have, and without them nothing is lost. libdispatch would
    // write "Failed to set thread priority" to the system's log each time.
    setenv("LIBDISPATCH_LOG", "NO", 0)
    // By default glibc has up to eight heaps for each core, and what was freed in one is of no use to another's threads.
    mallopt(M_ARENA_MAX, CInt(ProcessInfo.processInfo.activeProcessorCount))
    Task.detached {
      await PushBouncer.main()
      exit(EXIT_SUCCESS)
    }
    while true { pause() }
  }
}

/// The program, with one command for each of the operator's tasks.
struct PushBouncer: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "push-bouncer",
    abstract: "A bouncer for the push notifications of self-hosted chats.",
    discussion: """
      Every command takes every key of the configuration as an option too: --http-port 9000, or \
      --set http.port=9000; push-bouncer help serve lists them. Results go to standard output, everything else to \
      standard error. Exit codes: 0 done, 1 failed or a check found something, 64 wrong usage.
      """,
    version: "push-bouncer \(Version.text)",
    subcommands: [
      Serve.self, DemoCommand.self, Init.self, Doctor.self, App.self, Clock.self, Keys.self,
      ServerCommand.self,
      Account.self, Routes.self, OutboxCommand.self, Stats.self, Copy.self, Migrate.self, Simulate.self,
      Device.self, Settings.self, Documents.self,
    ])

  /// Runs the command. Errors are printed as ``Fault``.
  static func main() async {
    // Opens `/dev/null` for closed standard streams; otherwise the next opened file would get their number,
    // and the output.
    for stream in 0...2 where fcntl(CInt(stream), F_GETFD) < 0 { _ = open("/dev/null", O_RDWR) }
    do {
      let arguments = SettingArguments.rewrite(Array(CommandLine.arguments.dropFirst()))
      if let wrong = WrongUsage.unknownCommand(in: arguments) { throw wrong }
      var command = try parseAsRoot(arguments)
      do {
        if var command = command as? any AsyncParsableCommand {
          try await command.run()
        } else {
          try command.run()
        }
      } catch let error as ValidationError {
        throw WrongUsage(message: error.message, command: type(of: command))
      } catch {
        // Errors of ArgumentParser are left to it, including the internal error type for `--help`.
        let isParsers = String(reflecting: type(of: error)).hasPrefix("ArgumentParser.")
        throw isParsers ? error : Fault(error)
      }
    } catch let error as WrongUsage {
      printError(error.text)
      exit(withError: ExitCode.validationFailure)
    } catch  where exitCode(for: error) == .validationFailure {
      printError(WrongUsage.suggesting(in: fullMessage(for: error)))
      exit(withError: ExitCode.validationFailure)
    } catch {
      ProgressLine.clear()
      // Where nothing reads the log, nothing would read the error either, and the process would not end.
      guard LogWriter.standardError.flush() else { Glibc.exit(EXIT_FAILURE) }
      exit(withError: error)
    }
  }
}

/// `settings`: prints the reference page of the configuration, for developers.
struct Settings: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints Documentation/Configuration.md, which is made from the table of settings.",
    shouldDisplay: false)

  func run() { printLine(Configuration.reference()) }
}

/// `demo`: a complete demonstration on this machine.
struct DemoCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract:
      "Runs a complete demonstration on this machine, in a temporary folder; exits 0 only if every step succeeds."
  )

  @OptionGroup var options: GlobalOptions
  @Flag(help: "Leaves everything running afterwards, to try by hand.") var keep = false

  func run() async throws {
    bootstrapLogging(level: .error, format: .text)
    let folder = FileManager.default.temporaryDirectory.appending(
      path: "push-bouncer-demo-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    defer { if !keep { try? FileManager.default.removeItem(at: folder) } }
    do {
      try await Story.play(in: folder, stays: keep, print: { printLine($0) })
    } catch let interruption as Story.Interruption {
      printError("The demonstration stopped here: \(interruption.reason)")
      throw ExitCode.failure
    }
  }
}
