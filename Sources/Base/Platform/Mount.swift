import Foundation

/// A mounted file system.
package struct Mount: Sendable, Hashable {
  /// The path at which it is mounted.
  package let point: String
  /// The kernel's name of its type, such as `ext4`.
  package let kind: String
  package let options: Set<String>

  /// The kernel's table of mounts (`man 5 proc_pid_mountinfo`); empty on a system without one.
  package static var table: String {
    (try? String(contentsOfFile: "/proc/self/mountinfo", encoding: .utf8)) ?? ""
  }

  /// The mount that a path, without links, lies on.
  package init?(of path: String, in table: String) {
    let mounts = table.split(separator: "\n").compactMap(Mount.init)
    let candidates = mounts.filter {
      path == $0.point || path.hasPrefix($0.point.hasSuffix("/") ? $0.point : "\($0.point)/")
    }
    // Of several at one place, the last one hides the others.
    guard let length = candidates.map(\.point.utf8.count).max(),
      let mount = candidates.last(where: { $0.point.utf8.count == length })
    else { return nil }
    self = mount
  }

  private init?(line: Substring) {
    guard let middle = line.range(of: " - ") else { return nil }
    let left = line[..<middle.lowerBound].split(separator: " ")
    let right = line[middle.upperBound...]
    let fields = right.split(separator: " ")
    guard left.count > 5, fields.count > 2 else { return nil }
    point = String(left[4]).replacing("\\040", with: " ")
    kind = String(fields[0])
    options = Set("\(left[5]),\(fields[2])".split(separator: ",").map(String.init))
  }

  /// The reason for which synced files on it do not survive a power loss; nil if they do. What a network file system's
  /// server or a disk does with a sync cannot be seen from here.
  package var loss: String? {
    if ["tmpfs", "ramfs", "devtmpfs"].contains(kind) { return "\(kind) at \(point), which is in memory" }
    let unsafe = options.intersection(["volatile", "nobarrier", "barrier=0"]).sorted().first
    return unsafe.map { "\(kind) at \(point), which is mounted with \($0)" }
  }
}
