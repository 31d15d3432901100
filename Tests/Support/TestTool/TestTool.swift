import ArgumentParser
import HTTPTypes
import Operator
import Platform
import WebPushGateway

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
    case gatewayErrors = "gateway-errors"
  }

  static let configuration = CommandConfiguration(abstract: "Prints a table of the documentation.")

  @Argument(help: "metrics, reasons or gateway-errors.") var name: Name

  func run() {
    switch name {
    case .metrics: print(MetricDescription.table)
    case .reasons: print(ReasonTable.text)
    case .gatewayErrors: print(GatewayCode.table)
    }
  }
}

extension GatewayCode {
  /// As `Documentation/Errors.md` has it.
  fileprivate static var table: String {
    "| status | code | what it means | whose fault | again |\n|---|---|---|---|---|\n"
      + allCases.map {
        let (text, fault, again) = $0.meaning
        return "| \($0.status.code) | `\($0.rawValue)` | \(text) | \(fault) | \(again) |\n"
      }.joined()
  }
}
