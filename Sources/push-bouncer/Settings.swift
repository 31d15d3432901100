import ArgumentParser
import Operations

/// `settings`: the page about the configuration, for whoever changes the program.
struct Settings: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints Documentation/Configuration.md, which is made from the table of settings.",
    shouldDisplay: false)

  func run() { tell(Configuration.reference()) }
}
