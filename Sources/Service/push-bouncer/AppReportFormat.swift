import AppCheck
import ArgumentParser
import Basics
import Foundation
import HTTP
import Platform

extension AppCheck.Place {
  /// `Brand/NCBrand.swift:33`, `resources.arsc, google_app_id`, `project.pbxproj:5679 (Share)`
  var text: String? {
    file.map { file in
      file + (line.map { ":\($0)" } ?? member.map { ", \($0)" } ?? "") + (target.map { " (\($0))" } ?? "")
    }
  }
}

/// What a build pipeline shows beside the lines of an app.
enum AppReportFormat: String, ExpressibleByArgument, CaseIterable {
  case github, sarif

  /// - Parameter path: the app, as the command was called with it.
  func text(of report: AppCheck.Report, path: String) -> String {
    var isFolder: ObjCBool = false
    let isSource = FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder.boolValue
    /// A path from where the command was called; a package is one file.
    func file(_ place: AppCheck.Place?) -> String {
      guard isSource, let file = place?.file else { return path }
      return ["", ".", "./"].contains(path)
        ? file : path + (path.utf8.last == UInt8(ascii: "/") ? "" : "/") + file
    }
    let findings = report.findings.filter { $0.standing != .good }
    return switch self {
    case .github:
      findings.flatMap { finding in
        finding.locations.map { place in
          let level = finding.standing == .fault ? "error" : "warning"
          let parts = [report.variant, place?.target.map { "target \($0)" }].compactMap(\.self)
          let title = finding.check + (parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))")
          let line = isSource ? place?.line.map { ",line=\($0)" } ?? "" : ""
          return
            "::\(level) file=\(Self.escaped(file(place), ":,"))\(line),title=\(Self.escaped(title, ":,"))::"
            + Self.escaped(finding.sentence, "")
        }
      }.joined(separator: "\n")
    case .sarif: Self.sarif(findings, report.variant, isSource: isSource, file).text
    }
  }

  /// As GitHub's commands are written: line ends and marks of their own by their numbers.
  private static func escaped(_ text: String, _ marks: String) -> String {
    var escaped = ""
    for scalar in text.unicodeScalars {
      let isMark = scalar == "%" || scalar == "\r" || scalar == "\n" || marks.unicodeScalars.contains(scalar)
      escaped +=
        isMark
        ? "%" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16, uppercase: true)
        : String(scalar)
    }
    return escaped
  }

  private static func sarif(
    _ findings: [AppCheck.Finding], _ variant: String?, isSource: Bool, _ file: (AppCheck.Place?) -> String
  ) -> JSON {
    let results: [JSON] = findings.map { finding in
      [
        "ruleId": .string(finding.check.replacing(" ", with: "-")),
        "level": finding.standing == .fault ? "error" : "warning",
        "message": ["text": .string(finding.sentence)],
        "locations": .array(
          finding.locations.map { place in
            let name =
              file(place).addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? file(place)
            var location: JSON.Object = ["artifactLocation": ["uri": .string(name)]]
            if isSource, let line = place?.line { location["region"] = ["startLine": .integer(Int64(line))] }
            let target = place?.target.map { JSON.array([["name": .string($0), "kind": "module"]]) }
            return ["physicalLocation": .object(location), "logicalLocations": target ?? []]
          }),
      ]
    }
    let rules = Set(findings.map(\.check)).sorted().map { check -> JSON in
      ["id": .string(check.replacing(" ", with: "-")), "shortDescription": ["text": .string(check)]]
    }
    return [
      "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
      "runs": [
        [
          "tool": [
            "driver": [
              "name": "push-bouncer", "version": .string(Version.text), "rules": .array(rules),
            ]
          ], "automationDetails": ["id": .string("app check/\(variant ?? "")")], "results": .array(results),
        ]
      ],
    ]
  }
}

extension AppCheck.Finding {
  /// Its places, or that it has none.
  fileprivate var locations: [AppCheck.Place?] { places.isEmpty ? [nil] : places }

  /// Everything in one text.
  fileprivate var sentence: String {
    let head = standing == .skipped ? "could not be checked: \(found)" : found
    return ([head] + [expected.map { "must be: \($0)" }, effect.map { "or else: \($0)" }].compactMap(\.self))
      .joined(separator: "\n")
  }
}
