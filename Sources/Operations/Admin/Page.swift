internal import Foundation

/// The frame of every page.
enum Page {
  /// - Parameters:
  ///   - refreshes: loads itself anew every half minute.
  ///   - hasSession: somebody has signed in, and may sign out.
  ///   - canSearch: whoever sees it may search.
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

  /// A page that says one thing.
  static func message(_ title: String, _ text: String) -> HTML {
    document(title, "<section><h1>\(title)</h1><p>\(text)</p></section>")
  }
}

/// A table of a page.
struct HTMLTable {
  /// How a column looks.
  enum Column {
    case text(String)
    case number(String)
    /// Of no use on a narrow screen.
    case wide(String)
    case wideNumber(String)

    fileprivate var heading: String {
      switch self {
      case .text(let heading), .number(let heading), .wide(let heading), .wideNumber(let heading): heading
      }
    }

    fileprivate var style: String {
      switch self {
      case .text: ""
      case .number: "n"
      case .wide: "wide"
      case .wideNumber: "n wide"
      }
    }
  }

  private let columns: [Column]
  private var rows: [HTML] = []

  init(_ columns: [Column]) { self.columns = columns }

  var isEmpty: Bool { rows.isEmpty }

  /// Adds a row.
  mutating func add(_ cells: [HTML]) {
    rows.append(
      "<tr>\(zip(columns, cells).map { column, cell -> HTML in "<td class=\"\(column.style)\">\(cell)</td>" })</tr>\n"
    )
  }

  /// It, or what to say where it has no row.
  func html(otherwise: String) -> HTML {
    guard !rows.isEmpty else { return "<p class=\"faint\">\(otherwise)</p>" }
    let headings = columns.map { column -> HTML in
      "<th scope=\"col\" class=\"\(column.style)\">\(column.heading)</th>"
    }
    return
      "<div class=\"scroll\"><table>\n<thead><tr>\(headings)</tr></thead>\n<tbody>\n\(rows)</tbody>\n</table></div>"
  }
}

/// What stands in cells.
enum Shown {
  static func number(_ number: some BinaryInteger) -> HTML { "\(Phrase.number(number))" }

  /// A number that had better be none.
  static func bad(_ number: some BinaryInteger, _ tone: String = "bad") -> HTML {
    number == 0
      ? "<span class=\"faint\">0</span>" : "<span class=\"word \(tone)\">\(Phrase.number(number))</span>"
  }

  static func age(_ date: Date?, at now: Date) -> HTML {
    guard let date else { return "<span class=\"faint\">never</span>" }
    return
      "<time datetime=\"\(date.formatted(.iso8601))\" title=\"\(date.formatted(.iso8601))\">\(Phrase.age(date, at: now))</time>"
  }

  static func optional(_ text: String?) -> HTML {
    text.map { "\($0)" } ?? "<span class=\"faint\">-</span>"
  }

  static func latency(_ seconds: TimeInterval?) -> HTML { optional(seconds.map(Phrase.latency)) }

  /// So many a minute.
  static func rate(_ perMinute: Double) -> String {
    switch perMinute {
    case 0: "0"
    case ..<0.05: "< 0.1"
    case ..<10: String(format: "%.1f", perMinute)
    default: Phrase.number(Int(perMinute.rounded()))
    }
  }
}
