package import Basics

/// The folder of keys and credentials.
package struct KeysSettings: Sendable {
  package init() {}

  @Setting(
    "keys.directory", "Keys", .folder("/var/lib/push-bouncer/Keys"), "the folder of keys and credentials")
  package var directory: String
}
