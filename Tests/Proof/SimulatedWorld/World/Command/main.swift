import CVirtualTime
import Foundation

// Hashes that are the same in every run; asked for before Swift reads it, so the program begins again.
if ProcessInfo.processInfo.environment["SWIFT_DETERMINISTIC_HASHING"] == nil {
  setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
  let arguments = CommandLine.arguments.map { strdup($0) } + [nil]
  execv("/proc/self/exe", arguments)
}
exit(Command(CommandLine.arguments.dropFirst()).run())
