import ArgumentParser
import Operations

/// The program, with one command for each task of its operator.
@main
struct PushBouncer: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "push-bouncer",
    abstract: "A bouncer for the push notifications of self-hosted chats.",
    discussion: """
      Every key of the configuration can be given on the command line too: --http.port 9000, or \
      --http-port 9000. Results go to standard output, everything else to standard error. Exit codes: 0 \
      done, 1 failed or a check found something, 64 wrong usage.
      """,
    version: "push-bouncer \(Version.text)",
    subcommands: [
      Serve.self, DemoCommand.self, Init.self, Examine.self, Clock.self, Keys.self, ServerCommand.self,
      Account.self,
      Routes.self, Stats.self, Copy.self, Migrate.self, Simulate.self, Device.self, Vectors.self,
    ])

  static func main() async {
    await main(SettingArguments.rewrite(Array(CommandLine.arguments.dropFirst())))
  }
}

/// Lets every configuration key be an option of its own, without each being declared as one.
enum SettingArguments {
  /// Turns `--http.port 9000`, `--http-port=9000` and the like into `--set http.port=9000`.
  static func rewrite(_ arguments: [String]) -> [String] {
    let names = Dictionary(
      Configuration.keys.flatMap { key in
        [("--\(key)", key), ("--\(key.replacing(".", with: "-").replacing("_", with: "-"))", key)]
      }, uniquingKeysWith: { first, _ in first })
    var rewritten: [String] = []
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      if argument == "--" { return rewritten + [argument] + rest }
      let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard let key = parts.first.flatMap({ names[String($0)] }) else {
        rewritten.append(argument)
        continue
      }
      guard let value = parts.count > 1 ? String(parts[1]) : rest.popFirst() else {
        // Left as it is: the parser tells what is wrong.
        rewritten.append(argument)
        continue
      }
      rewritten += ["--set", "\(key)=\(value)"]
    }
    return rewritten
  }
}
