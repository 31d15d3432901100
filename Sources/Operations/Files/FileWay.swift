internal import Foundation

/// What lies on the way from `/` to a file, links included, as far as it is there.
struct FileWay {
  struct Step {
    let path: String
    let user: uid_t
    let group: gid_t
    let kind: FileAttributeType?
    /// With the bit of folders like `/tmp`, in which nobody touches what is not his own.
    let permissions: Int

    var isLink: Bool { kind == .typeSymbolicLink }

    /// Whether another than root could put something else in its place, or into it.
    var isOpenToOthers: Bool {
      if user != 0 { return true }
      let isSticky = kind == .typeDirectory && permissions & 0o1000 != 0
      return !isLink && !isSticky && permissions & 0o022 != 0
    }

    /// nil if it is not there, or nobody may look.
    init?(_ path: String) {
      // Of a link itself.
      guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
        let user = attributes[.ownerAccountID] as? NSNumber,
        let group = attributes[.groupOwnerAccountID] as? NSNumber,
        let permissions = attributes[.posixPermissions] as? NSNumber
      else { return nil }
      self.path = path
      (self.user, self.group) = (user.uint32Value, group.uint32Value)
      kind = attributes[.type] as? FileAttributeType
      self.permissions = permissions.intValue
    }
  }

  private(set) var steps: [Step] = []

  /// As many links as the kernel follows.
  private static let mostLinks = 40

  /// - Parameter path: from `/`, or from the working folder.
  init(to path: String) {
    var rest = Array(Self.names(path).reversed())
    if !path.hasPrefix("/") { rest += Self.names(FileManager.default.currentDirectoryPath).reversed() }
    var (place, links) = ("", 0)
    while let name = rest.popLast() {
      guard name != ".." else {
        place = place.lastIndex(of: "/").map { String(place[..<$0]) } ?? ""
        continue
      }
      guard let step = Step("\(place)/\(name)") else { return }
      steps.append(step)
      guard step.isLink else {
        place += "/\(name)"
        continue
      }
      links += 1
      guard links <= Self.mostLinks,
        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: step.path)
      else { return }
      if target.hasPrefix("/") { place = "" }
      rest += Self.names(target).reversed()
    }
  }

  private static func names(_ path: String) -> [Substring] {
    path.split(separator: "/").filter { $0 != "." }
  }
}
