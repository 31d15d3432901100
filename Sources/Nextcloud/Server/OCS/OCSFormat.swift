/// How an OCS answer is written: as the parameter `format` says, else the first known type of the `Accept`
/// header, else XML (`spec/nextcloud.md` 3.1).
enum OCSFormat: String, Sendable {
  case json, xml

  init(parameter: String?, accept: String?) {
    if let parameter {
      self = OCSFormat(rawValue: parameter) ?? .xml
      return
    }
    let types = (accept ?? "").split(separator: ",").lazy.map { type in
      type.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
    }
    self =
      types.compactMap { type in
        type.hasPrefix("application/") ? OCSFormat(rawValue: String(type.dropFirst(12))) : nil
      }.first ?? .xml
  }

  var contentType: String { "application/\(rawValue); charset=utf-8" }
}
