internal import Foundation
internal import Operations

/// The files of an app: a folder with its source, or a built package (APK, AAB or IPA), which is a zip archive.
struct AppFiles: Sendable {
  private enum Place: Sendable {
    case folder(URL)
    case archive(ZipArchive)
  }

  /// Folders that hold no file that a person edits.
  private static let skipped: Set = [".git", ".dart_tool", ".gradle", "build", "node_modules", "Pods"]
  /// The most files of a folder, and the largest that is read there, in bytes.
  private static let (maximumCount, maximumSize) = (200_000, 16 << 20)

  private let place: Place
  /// The files' paths inside the app, sorted.
  let names: [String]
  private let known: Set<String>

  var isArchive: Bool {
    if case .archive = place { true } else { false }
  }

  /// - Throws: a ``Fault`` if there is nothing at the path, or no app.
  init(path: String) throws(Fault) {
    var isFolder: ObjCBool = false
    guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
      throw Fault(
        source: path, "is not there", advice: "give the folder with the app's source, or a built package")
    }
    do {
      if isFolder.boolValue {
        place = .folder(URL(fileURLWithPath: path, isDirectory: true))
        names = try Self.names(in: path)
      } else {
        let archive = try ZipArchive(Data(contentsOf: URL(fileURLWithPath: path), options: .alwaysMapped))
        place = .archive(archive)
        names = archive.names.sorted()
      }
    } catch let fault as Fault {
      throw fault
    } catch is ZipArchive.Failure {
      throw Fault(
        source: path, "is not a zip archive that can be read",
        advice: "give an APK, AAB or IPA as it was built")
    } catch {
      throw Fault(error)
    }
    known = Set(names)
  }

  private static func names(in path: String) throws -> [String] {
    guard let files = FileManager.default.enumerator(atPath: path) else {
      throw Fault(source: path, "cannot be read", advice: "run this as somebody who may read it")
    }
    var names: [String] = []
    for case let name as String in files {
      // Links are not followed: they could lead out of the app.
      if files.fileAttributes?[.type] as? FileAttributeType == .typeDirectory {
        if skipped.contains((name as NSString).lastPathComponent) { files.skipDescendants() }
      } else if files.fileAttributes?[.type] as? FileAttributeType == .typeRegular {
        names.append(name)
      }
      guard names.count <= maximumCount else {
        throw Fault(
          source: path, "has more than \(maximumCount) files",
          advice: "give the folder of one app, without its builds")
      }
    }
    return names.sorted()
  }

  /// The contents of a file; nil if it is not there or cannot be read.
  func data(_ name: String) -> Data? {
    switch place {
    case .archive(let archive): return (try? archive.contents(of: name)) ?? nil
    case .folder(let folder):
      guard known.contains(name) else { return nil }
      let file = folder.appendingPathComponent(name)
      let size = (try? FileManager.default.attributesOfItem(atPath: file.path))?[.size] as? Int
      guard let size, size <= Self.maximumSize else { return nil }
      return try? Data(contentsOf: file)
    }
  }

  /// The contents of a text file; nil if it is not there or cannot be read.
  func text(_ name: String) -> SourceText? {
    data(name).map { SourceText(name: name, text: String(decoding: $0, as: UTF8.self)) }
  }
}

/// A value that is built into an app, and where it stands.
struct Value: Sendable, Hashable {
  let text: String
  let file: String
  /// Counted from 1; nil in a binary file.
  let line: Int?
}

/// A text file of an app's source, or a part of one.
struct SourceText: Sendable {
  let name: String
  let text: String
  /// Where the text begins in its file.
  var firstLine = 1

  /// Every value that the first group of a pattern has outside comments, in order.
  func values(_ pattern: Regex<(Substring, Substring)>) -> [Value] {
    text.matches(of: pattern).compactMap { match in
      let place = match.output.1.startIndex
      let start = text[..<place].lastIndex(where: \.isNewline).map(text.index(after:)) ?? text.startIndex
      guard !text[start..<place].contains(#/^\s*(?:\/\/|\*|#)|\s\/\/|<!--/#) else { return nil }
      return Value(text: String(match.output.1), file: name, line: line(of: place))
    }
  }

  /// The first line that has a text.
  func line(with text: String) -> Int? { self.text.range(of: text).map { line(of: $0.lowerBound) } }

  private func line(of place: String.Index) -> Int {
    firstLine + text[..<place].count(where: \.isNewline)
  }
}
