package import Foundation

extension UUID {
  /// Whether it is a UUID of version 4 (RFC 9562), which is all that Zulip's bouncers take for a realm's.
  package var isVersion4: Bool { uuid.6 >> 4 == 4 && uuid.8 >> 6 == 0b10 }
}
