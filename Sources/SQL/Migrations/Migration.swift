import Crypto

/// One numbered change of the schema. Once released it is never edited: the next change is the
/// next migration.
package struct Migration: Sendable, Hashable {
  /// Its place in the order, from 1.
  package let number: Int

  /// What it is about, as in its file's name: `0001_bouncer.sql` is `bouncer`.
  package let name: String

  /// The statements, separated by semicolons.
  package let sql: String

  /// SHA-256 of the text, in hex: tells when a migration was edited after it had been applied.
  package let checksum: String

  /// The migration with the given text.
  package init(_ number: Int, _ name: String, sql: String) {
    self.number = number
    self.name = name
    self.sql = sql
    checksum = SHA256.hash(data: Array(sql.utf8)).map { byte in
      let hex = String(byte, radix: 16)
      return byte < 16 ? "0" + hex : hex
    }.joined()
  }

  /// The migration in an embedded file.
  package init(_ number: Int, _ name: String, _ file: [UInt8]) {
    self.init(number, name, sql: String(decoding: file, as: UTF8.self))
  }
}
