import Foundation
import NIOCore
import NIOHPACK

/// JSON written by hand: an answer with a hundred thousand notifications takes their payloads as they came.
enum JSONText {
  /// A string with its quotes.
  static func string(_ text: String) -> String {
    var out = "\""
    out.reserveCapacity(text.utf8.count + 2)
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": out += "\\\""
      case "\\": out += "\\\\"
      case "\u{0}"..<"\u{20}": out += String(format: "\\u%04x", scalar.value)
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }
}

extension Delivery {
  /// Appends it as the control API shows it.
  func write(to out: inout ByteBuffer) {
    let place =
      switch provider {
      case .apns: "topic"
      case .fcm: "project"
      case .webPush: "origin"
      }
    out.writeString(
      #"{"sequence":\#(sequence),"provider":"\#(provider.rawValue)","token":\#(JSONText.string(token)),"#
        + #""\#(place)":\#(JSONText.string(target)),"headers":{"#)
    for (index, header) in headers.enumerated() {
      out.writeString(
        "\(index == 0 ? "" : ",")\(JSONText.string(header.name)):\(JSONText.string(header.value))")
    }
    out.writeString(#"},"payload":"#)
    var payload = body
    if provider == .webPush {
      out.writeString(JSONText.string(self.payload.base64EncodedString()))
    } else
    // What was refused may be anything, and the quick check at arrival does not look into every number and escape.
    if (try? JSONSerialization.jsonObject(with: self.payload)) != nil {
      out.writeBuffer(&payload)
    } else {
      out.writeString(JSONText.string(String(buffer: payload)))
    }
    let time = receivedAt.formatted(.iso8601.year().month().day().time(includingFractionalSeconds: true))
    out.writeString(#","received_at":"\#(time)Z","status":\#(status),"accepted":\#(accepted),"#)
    if let reason { out.writeString(#""reason":\#(JSONText.string(reason)),"#) }
    out.writeString(#""id":\#(JSONText.string(id))}"#)
  }
}

extension HPACKHeaders {
  /// Those that a delivery keeps: all but the credential.
  var kept: [(name: String, value: String)] {
    var kept: [(name: String, value: String)] = []
    kept.reserveCapacity(count)
    for (name, value, _) in self where name != "authorization" { kept.append((name, value)) }
    return kept
  }
}
