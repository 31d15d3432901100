internal import CVersion

/// Which push-bouncer this is: what `--version`, metrics, the log and other nodes are told.
package enum Version {
  /// The release, or the one to come.
  package static let number = "0.1.0"

  /// The commit that it was built from, as `Scripts/build` and `Scripts/package` tell the build; nil after a plain
  /// `swift build`.
  package static let commit: String? = {
    let commit = String(cString: push_bouncer_commit())
    return commit.isEmpty ? nil : commit
  }()

  /// `0.1.0 (45f11d8a1b2c)`
  package static let text = "\(number) (\(commit ?? "built from source"))"
}
