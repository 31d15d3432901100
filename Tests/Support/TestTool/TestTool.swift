import ArgumentParser
import Operator
import Platform

/// What scripts of this repository ask of the modules, and no user needs.
@main struct TestTool: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "test-tool", abstract: "Test vectors, and the tables that pages are made from.",
    subcommands: [Table.self, Vectors.self])
}

/// `table`: prints one in Markdown, for `Scripts/release/documentation`.
struct Table: ParsableCommand {
  enum Name: String, ExpressibleByArgument {
    case metrics, reasons
  }

  static let configuration = CommandConfiguration(abstract: "Prints a table of the documentation.")

  @Argument(help: "metrics or reasons.") var name: Name

  func run() {
    switch name {
    case .metrics: print(MetricDescription.table)
    case .reasons: print(ReasonTable.text)
    }
  }
}
