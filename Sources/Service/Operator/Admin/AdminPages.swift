import Foundation
import HTTP
import HTTPTypes
import Hummingbird

/// The operator's pages: templates in `Templates/`, filled from values.
enum AdminPages {
  private static let templates = PageTemplates(
    [
      "page": PackageResources.page_mustache, "overview": PackageResources.overview_mustache,
      "servers": PackageResources.servers_mustache, "server": PackageResources.server_mustache,
      "find": PackageResources.find_mustache, "message": PackageResources.message_mustache,
      "sign-in": PackageResources.sign_in_mustache, "unknown": PackageResources.unknown_mustache,
      "table": PackageResources.table_mustache, "figures": PackageResources.figures_mustache,
      "chart": PackageResources.chart_mustache, "text": PackageResources.text_mustache,
    ], sheet: PackageResources.admin_css)

  /// Renders a page.
  ///
  /// - Parameters:
  ///   - name: the template's.
  ///   - refreshes: reloads the page every 30 seconds.
  ///   - hasSession: shows the button to sign out.
  ///   - query: what stands in the field to search in; nil for no field.
  static func response(
    _ name: String, _ title: String, _ content: some Sendable, status: HTTPResponse.Status = .ok,
    refreshes: Bool = false, hasSession: Bool = false, query: String? = ""
  ) -> Response {
    let page = Page(
      title: title, refreshes: refreshes, hasSession: hasSession, canSearch: query != nil, query: query ?? "",
      content: content)
    return templates.response(name, page, status, headers)
  }

  /// A page with a title and one message.
  static func message(_ status: HTTPResponse.Status, _ title: String, _ text: String) -> Response {
    response("message", title, Message(text: text), status: status)
  }

  private struct Page<Content: Sendable>: PageModel {
    let title: String
    let refreshes: Bool
    let hasSession: Bool
    let canSearch: Bool
    let query: String
    let content: Content
  }

  private struct Message {
    let text: String
  }

  private static let headers: HTTPFields = [
    .referrerPolicy: "same-origin", .crossOriginOpenerPolicy: "same-origin",
  ]
}

// All of these names are valid, so the force unwraps cannot fail.
extension HTTPField.Name {
  fileprivate static let referrerPolicy = HTTPField.Name("Referrer-Policy")!
  fileprivate static let crossOriginOpenerPolicy = HTTPField.Name("Cross-Origin-Opener-Policy")!
}
