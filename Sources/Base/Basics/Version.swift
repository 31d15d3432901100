import CVersion

/// The version of push-bouncer that `--version`, metrics, the log and other nodes get.
package enum Version {
  /// The current release, or the next one.
  package static let number = "1.0.0"

  /// The commit of the build, which `Scripts/build` and `Scripts/package` pass in; nil after a plain `swift
  /// build`.
  package static let commit: String? = {
    let commit = String(cString: push_bouncer_commit())
    return commit.isEmpty ? nil : commit
  }()

  /// `1.0.0 (45f11d8a1b2c)`
  package static let text = "\(number) (\(commit ?? "built from source"))"
}
