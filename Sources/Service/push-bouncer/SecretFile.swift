import ArgumentParser
import Basics
import Foundation

/// A secret in a file or in standard input: every user of the machine can see what is on a command line.
enum SecretFile {
  /// Reads it. Neither the secret nor a wrong file's content is ever shown.
  ///
  /// - Parameters:
  ///   - file: its path; `-` is standard input.
  ///   - name: what it is, for the fault.
  static func read(_ file: String, _ name: String) throws -> String {
    let handle = file == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: file)
    guard let data = try? handle?.read(upToCount: 16_384) else { throw Fault("\(file) cannot be read") }
    let text = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    guard !text.isEmpty, text.utf8.count <= 8192 else {
      throw Fault("there is no \(name) in \(file == "-" ? "standard input" : file)")
    }
    return text
  }

  /// The value of an option that is given as itself or by a file; nil if neither is.
  static func value(_ option: String, _ text: String?, file: String?, _ name: String) throws -> String? {
    guard let file else { return text }
    guard text == nil else { throw ValidationError("give \(option) or \(option)-file, not both") }
    return try read(file, name)
  }
}
