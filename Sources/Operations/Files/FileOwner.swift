internal import Foundation

/// The user as whom root acts on files: who may change a folder decides what stands in it, so root opens nothing there
/// with rights that this user does not have.
///
/// Commands become this user for good as soon as they know which files they are about. Only what root has named on the
/// command line is opened before that, each file as its own owner.
package struct FileOwner: Sendable, Hashable {
  let user: uid_t
  let group: gid_t

  /// The first on the way to a path who is not root; nil if all of it is root's.
  init?(ofWayTo path: String) {
    guard let step = FileWay(to: path).steps.first(where: { $0.user != 0 }) else { return nil }
    user = step.user
    // The group of a folder may be root's.
    group = getpwuid(user).map(\.pointee.pw_gid) ?? (step.group == 0 ? user : step.group)
  }

  private var name: String { FileObstacle.name(of: user) }

  /// Makes root the owner of these files, for good; nobody else changes by this.
  ///
  /// - Throws: ``Fault`` if they belong to several users.
  package static func become(ofWaysTo paths: [String]) throws(Fault) {
    guard geteuid() == 0 else { return }
    let owners = Set(paths.compactMap(FileOwner.init(ofWayTo:)))
    guard let owner = owners.first else { return }
    guard owners.count == 1 else {
      throw Fault(
        "\(paths.joined(separator: ", ")) belong to different users: \(owners.map(\.name).sorted().joined(separator: ", "))",
        advice: "give all of them to the user of the service, and run this as that user")
    }
    guard owner.takeGroups(), setgid(owner.group) == 0, setuid(owner.user) == 0 else { throw owner.fault }
  }

  /// Runs `body` as the owner of a file that root has named, and as root again afterwards.
  package static func acting<Result>(onWayTo path: String, _ body: () throws -> Result) throws -> Result {
    guard geteuid() == 0, let owner = FileOwner(ofWayTo: path) else { return try body() }
    var groups = [gid_t](repeating: 0, count: Int(max(0, getgroups(0, nil))))
    groups.removeLast(groups.count - Int(max(0, getgroups(CInt(groups.count), &groups))))
    let group = getegid()
    defer {
      // Never on with rights that are neither's.
      guard seteuid(0) == 0, setegid(group) == 0, setgroups(groups.count, groups) == 0 else { abort() }
    }
    guard owner.takeGroups(), setegid(owner.group) == 0, seteuid(owner.user) == 0 else { throw owner.fault }
    return try body()
  }

  /// The user's own groups in the place of root's.
  private func takeGroups() -> Bool {
    if let entry = getpwuid(user) { return initgroups(entry.pointee.pw_name, group) == 0 }
    return setgroups(1, [group]) == 0
  }

  private var fault: Fault {
    Fault("this may not become \(name), whose files these are", advice: "run it as \(name)")
  }
}
