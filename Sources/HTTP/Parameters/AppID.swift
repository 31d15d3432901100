/// The bundle id of an iOS app, as Zulip's wire names it: `^[.a-zA-Z0-9-]+$`
/// (`Documentation/Protocols/Zulip.md` 2.5).
package enum AppID {
  /// Whether a text can be one.
  package static func isValid(_ text: String) -> Bool {
    !text.isEmpty
      && text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
          true
        default: false
        }
      }
  }
}
