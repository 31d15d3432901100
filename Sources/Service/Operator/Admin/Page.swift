internal import Foundation
internal import Settings

/// The document around the content of every page.
enum Page {
  /// - Parameters:
  ///   - refreshes: reloads the page every 30 seconds.
  ///   - hasSession: shows the button to sign out.
  static func document(
    _ title: String, refreshes: Bool = false, hasSession: Bool = false, canSearch: Bool = true,
    query: String = "",
    _ content: HTML
  ) -> HTML {
    """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    \(refreshes ? "<meta http-equiv=\"refresh\" content=\"30\">" : HTML.none)
    <meta name="robots" content="noindex">
    <title>\(title)</title>
    \(AdminStyle.element)
    </head>
    <body>
    <header>
    <strong><a href="/admin">push-bouncer</a></strong>
    \(canSearch ? search(query) : HTML.none)
    \(hasSession ? signOut : HTML.none)
    </header>
    <main>
    \(content)
    </main>
    </body>
    </html>

    """
  }

  private static func search(_ query: String) -> HTML {
    """
    <form action="/admin/find" method="get" role="search">
    <input type="search" name="q" value="\(query)" maxlength="300" aria-label="Search"
      placeholder="Server, realm, user, token id, device">
    <button>Find</button>
    </form>
    """
  }

  private static let signOut: HTML =
    "<form action=\"/admin/sign-out\" method=\"post\"><button>Sign out</button></form>"

  /// A page with a title and one message.
  static func message(_ title: String, _ text: String) -> HTML {
    document(title, "<section><h1>\(title)</h1><p>\(text)</p></section>")
  }
}

/// A table on a page. On a narrow screen each row is a paragraph, which begins with the first column, and each further
/// cell follows its heading: so the columns come in the order of their importance.
struct HTMLTable {
  struct Column {
    let heading: String
    let style: String

    static func text(_ heading: String) -> Self { .init(heading: heading, style: "") }
    static func number(_ heading: String) -> Self { .init(heading: heading, style: "n") }
  }

  private let columns: [Column]
  private var rows: [HTML] = []

  init(_ columns: [Column]) { self.columns = columns }
  init(_ columns: Column...) { self.init(columns) }

  var isEmpty: Bool { rows.isEmpty }

  mutating func add(_ cells: HTML...) { add(cells) }

  mutating func add(_ cells: [HTML]) {
    rows.append(
      "<tr>\(zip(columns, cells).map { column, cell -> HTML in "<td class=\"\(column.style)\" data-heading=\"\(column.heading)\">\(cell)</td>" })</tr>\n"
    )
  }

  /// The table, or the text `otherwise` if it has no rows.
  func html(otherwise: String = "") -> HTML {
    guard !rows.isEmpty else { return "<p class=\"faint\">\(otherwise)</p>" }
    let headings = columns.map { column -> HTML in
      "<th scope=\"col\" class=\"\(column.style)\">\(column.heading)</th>"
    }
    return
      "<div class=\"scroll\"><table>\n<thead><tr>\(headings)</tr></thead>\n<tbody>\n\(rows)</tbody>\n</table></div>"
  }
}

/// The contents of table cells and figures.
enum Shown {
  /// An unknown value.
  static let none: HTML = "<span class=\"faint none\">-</span>"

  static func number(_ number: some BinaryInteger) -> HTML { "\(Phrase.number(number))" }
  static func number(_ number: Int64?) -> HTML { number.map { Self.number($0) } ?? none }

  /// A number that is highlighted unless it is zero.
  static func bad(_ number: Int64?, _ tone: String = "bad") -> HTML {
    guard let number else { return none }
    return number == 0
      ? "<span class=\"faint\">0</span>" : "<span class=\"word \(tone)\">\(Phrase.number(number))</span>"
  }

  static func age(_ date: Date?, at now: Date) -> HTML {
    guard let date else { return "<span class=\"faint\">never</span>" }
    let time = date.formatted(.iso8601)
    return "<time datetime=\"\(time)\" title=\"\(time)\">\(Phrase.age(date, at: now))</time>"
  }

  static func optional(_ text: String?) -> HTML { text.map { "\($0)" } ?? none }

  static func code(_ text: String) -> HTML { "<span class=\"code\">\(text)</span>" }

  static func deactivated(_ isDeactivated: Bool) -> HTML {
    isDeactivated ? " <span class=\"word doubtful\">deactivated</span>" : .none
  }

  /// A rate per minute.
  static func rate(_ perMinute: Double) -> String {
    switch perMinute {
    case 0: "0"
    case ..<0.05: "< 0.1"
    case ..<10: String(format: "%.1f", perMinute)
    default: Phrase.number(Int(perMinute.rounded()))
    }
  }

  /// Large numbers, each with a caption.
  static func figures(_ figures: (value: HTML, caption: String)...) -> HTML {
    let spans = figures.map { figure -> HTML in "<span><b>\(figure.value)</b>\(figure.caption)</span>\n" }
    return "<div class=\"figures\">\n\(spans)</div>"
  }
}
