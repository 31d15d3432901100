import Basics
import Foundation
import Platform
import Providers
import Sealing

extension KeyFolder {
  /// The text of `README.md` in the folder of keys.
  package static let readme = String(decoding: PackageResources.README_md, as: UTF8.self)

  /// Writes `README.md` into the folder, unless it exists.
  ///
  /// - Returns: whether it was written.
  @discardableResult
  package static func writeReadme(in directory: String) throws -> Bool {
    try makeFolder(directory)
    return try PrivateFile.write(Array(readme.utf8), to: "\(directory)/README.md", replacing: false)
  }

  /// Makes the folders for keys and credentials that are missing. Otherwise what is moved to `Keys/fcm` would become a
  /// file of that name.
  package static func makeFolders(in directory: String) throws {
    for folder in KeyFile.folders {
      let path = "\(directory)/\(folder)"
      try PrivateFile.makeFolder(at: path)
      var isFolder: ObjCBool = false
      guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue else {
        throw Fault(
          source: path, "is no folder, which it has to be", advice: "move it away, and run this again")
      }
    }
  }

  /// Why the folder cannot be listed; nil if it can be or does not exist.
  static func closed(_ directory: String) -> Fault? {
    guard FileManager.default.fileExists(atPath: directory),
      let obstacle = FileObstacle.listing(directory)
    else { return nil }
    return Fault(obstacle, of: directory, key: "keys.directory")
  }

  static func makeFolder(_ directory: String) throws {
    if let fault = closed(directory) { throw fault }
    if !FileManager.default.fileExists(atPath: directory),
      let obstacle = FileObstacle.creatingFiles(in: directory)
    {
      throw Fault(obstacle, of: directory, key: "keys.directory")
    }
    try PrivateFile.makeFolder(at: directory)
  }
}

extension KeyFolder {
  /// Something required that is missing from the folder.
  package struct Shortage: Sendable, Hashable {
    /// What is missing, and the consequence.
    package let problem: String
    package let advice: String
    /// The problem as a sentence.
    var meaning: String { "\(problem.capitalizedFirst)." }
    /// Whether the service cannot work without it; false if it may be missing on purpose.
    package var isFault = true

    static let bouncerKey = Shortage(
      problem: "there is no bouncer key: phones cannot register",
      advice: """
        If there was one, put the folder back that keys.directory names; only for a new service, run push-bouncer keys \
        generate.
        """)
    static let credential = Shortage(problem: "\(none): nothing can be delivered", advice: putOne)
    static let storeCredential = Shortage(
      problem: "\(none): only Web Push can be delivered",
      advice: "For phones with \(owners) services: \(putOne)",
      isFault: false)
    private static let none = """
      there is no credential in \(Credentials.types.map { "Keys/\($0.provider.rawValue)" }.joined(separator: " and "))
      """
    private static let owners = Credentials.types.map { "\($0.owner)'s" }.joined(separator: " or ")
    private static let putOne =
      "Put one there, as the folder's README.md shows; it is reloaded within seconds."
  }
}

extension KeyFolder.Snapshot {
  /// What is missing for a service that delivers notifications itself, or that uses another bouncer.
  ///
  /// - Parameter hasWebPush: whether Web Push is on.
  package func shortages(isDelivering: Bool, hasWebPush: Bool) -> [KeyFolder.Shortage] {
    let store: [KeyFolder.Shortage] =
      isDelivering && credentials.all.isEmpty
      ? [hasWebPush ? .storeCredential : .credential] : []
    return (bouncer.isEmpty ? [.bouncerKey] : []) + store
  }
}
