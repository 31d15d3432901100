import HTTPTypes
import Hummingbird
import NIOCore
import NIOHPACK

/// An input that stands for a request or an answer: a first line (a path with its query, or a status), headers, an empty
/// line, and the body, as HTTP/1.1 writes it. Without an empty line all of it is the body.
struct HTTPText {
  var first = ""
  var headers: [(name: String, value: String)] = []
  var body: [UInt8]

  init(_ bytes: [UInt8]) {
    body = bytes
    var lines: [ArraySlice<UInt8>] = []
    var rest = bytes[...]
    while lines.count < 8, let end = rest.firstIndex(of: 0x0A) {
      let line = rest[..<end]
      rest = rest[(end + 1)...]
      if line.isEmpty {
        (first, body) = (lines.first.map(Self.text) ?? "", Array(rest))
        headers = lines.dropFirst().compactMap { line in
          guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return nil }
          return (Self.text(line[..<colon]).lowercased(), Self.text(line[(colon + 1)...].drop { $0 == 0x20 }))
        }
        return
      }
      lines.append(line)
    }
  }

  private static func text(_ bytes: some Sequence<UInt8>) -> String {
    String(decoding: Array(bytes), as: UTF8.self)
  }

  /// The first line as a status.
  var status: Int { Int(first) ?? 200 }

  /// The input as a request to a server, with the body in two parts.
  var request: Request {
    var fields = HTTPFields()
    for (name, value) in headers {
      if let name = HTTPField.Name(name) { fields.append(HTTPField(name: name, value: value)) }
    }
    let head = HTTPRequest(
      method: .post, scheme: nil, authority: nil, path: first.isEmpty ? "/" : first, headerFields: fields)
    return Request(head: head, body: RequestBody(buffer: ByteBuffer(bytes: body)))
  }

  var hpackHeaders: HPACKHeaders { HPACKHeaders(headers.map { ($0.name, $0.value) }) }
}
