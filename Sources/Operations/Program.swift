/// This program, as it names itself.
package enum Program {
  /// Its version.
  package static let version = "0.1.0"
}
