import Basics
import Crypto
import Foundation
import HTTPTypes
package import Hummingbird
import Mustache
import NIOCore

/// The pages of one part of the program, for browsers: templates in Mustache with one style sheet, and no scripts.
///
/// Values are escaped; markup stands in templates only. In a template a name with a dot before it (`{{.name}}`) is looked
/// up in the innermost value, which matters for one that may be nil: without the dot the values around it are searched.
package struct PageTemplates: Sendable {
  private let library: MustacheLibrary
  private let sheet: String
  private let policy: String

  /// - Parameters:
  ///   - files: the templates' texts in UTF-8, by name. They are compiled in, so the program ends if one is malformed, or
  ///     includes one that is not among them, which Mustache would leave out without a word.
  ///   - sheet: the style sheet, in UTF-8. The template that has `<style>{{{sheet}}}</style>` gets it as `sheet`.
  package init(_ files: [String: [UInt8]], sheet: [UInt8]) {
    MustacheContentTypes.register(EscapedText(), named: "PAGE")
    do {
      library = MustacheLibrary(
        templates: try files.mapValues { bytes in
          // Most templates are parts of a line, and a file ends with a newline.
          let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .newlines)
          for included in text.matches(of: /\{\{[<>] ?([a-z-]+)\}\}/) where files[String(included.1)] == nil {
            fatalError("there is no template \(included.1)")
          }
          return try MustacheTemplate(string: "{{% CONTENT_TYPE:PAGE}}" + text)
        })
    } catch {
      fatalError("a template is malformed: \(error)")
    }
    self.sheet = String(decoding: sheet, as: UTF8.self)
    let hash = Data(SHA256.hash(data: Data(self.sheet.utf8))).base64EncodedString()
    policy = """
      default-src 'none'; style-src 'sha256-\(hash)'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'
      """
  }

  /// Renders a page.
  ///
  /// - Parameters:
  ///   - model: its stored properties are the names in the template.
  ///   - headers: more header fields. Those that keep out scripts, frames, other style sheets and caches are added.
  package func response(
    _ name: String, _ model: some PageModel, _ status: HTTPResponse.Status = .ok, _ headers: HTTPFields = [:]
  ) -> Response {
    var fields: HTTPFields = [
      .contentType: "text/html; charset=utf-8", .cacheControl: "no-store", .contentSecurityPolicy: policy,
      .xContentTypeOptions: "nosniff", .xFrameOptions: "DENY",
    ]
    for field in headers { fields[field.name] = field.value }
    let html = library.render(Sheeted(sheet: sheet, page: model), withTemplate: name) ?? ""
    return Response(
      status: status, headers: fields, body: ResponseBody(byteBuffer: ByteBuffer(string: html)))
  }

  private struct Sheeted<Model: PageModel> {
    let sheet: String
    let page: Model
  }
}

/// Values for a template.
package protocol PageModel: Sendable {}

extension HTTPField.Name {
  private static let frameOptions = HTTPField.Name("X-Frame-Options")!  // a valid name
  fileprivate static var xFrameOptions: HTTPField.Name { frameOptions }
}

/// Text on a page, escaped.
private struct EscapedText: MustacheContentType {
  private static let entities: [Unicode.Scalar: String] = [
    "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;", "'": "&#39;", "`": "&#96;",
  ]

  /// The longest text, more than any of this program's own, in characters.
  private static let longest = 4096

  /// Hidden characters are shown as escapes, so that a name cannot pose as another.
  func escapeText(_ text: String) -> String {
    text.cut(to: Self.longest).escaped(keeping: ["\n", "\t"]).unicodeScalars.reduce(into: "") {
      result, scalar in
      if let entity = Self.entities[scalar] {
        result += entity
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
  }
}
