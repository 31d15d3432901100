import ArgumentParser

/// `device ...`: the devices that are registered, and a virtual one.
struct Device: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Finds registered devices and says why one gets nothing; without a subcommand, is a virtual phone.",
    subcommands: [Phone.self, List.self, Find.self, Show.self], defaultSubcommand: Phone.self)
}
