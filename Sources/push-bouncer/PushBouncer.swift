import ArgumentParser
import Operations

/// The program, with one command for each task of its operator.
@main
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
      Serve.self, DemoCommand.self, Init.self, Examine.self, Clock.self, Keys.self, ServerCommand.self,
      Account.self, Routes.self, OutboxCommand.self, Stats.self, Copy.self, Migrate.self, Simulate.self,
      Device.self, Vectors.self,
    ])

  static func main() async {
    await main(SettingArguments.rewrite(Array(CommandLine.arguments.dropFirst())))
  }
}
