internal import Crypto
internal import Foundation
internal import Settings

/// HTML that is safe to send: markup comes only from string literals, and interpolated values are escaped
/// unless they are HTML themselves. A string that is not a literal cannot become markup.
struct HTML: Sendable, Hashable, ExpressibleByStringInterpolation {
  let text: String

  private init(text: String) { self.text = text }

  init(stringLiteral text: StaticString) { self.text = "\(text)" }

  init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

  static let none: HTML = ""

  struct StringInterpolation: StringInterpolationProtocol {
    fileprivate var text: String

    init(literalCapacity: Int, interpolationCount: Int) {
      text = ""
      text.reserveCapacity(literalCapacity + 16 * interpolationCount)
    }

    mutating func appendLiteral(_ literal: StaticString) { text += "\(literal)" }

    /// Escaped text, for an element's content or a quoted attribute.
    mutating func appendInterpolation(_ value: String) { text += value.escaped }

    mutating func appendInterpolation(_ number: some BinaryInteger) { text += String(number) }

    /// A number with one decimal.
    mutating func appendInterpolation(_ number: Double) {
      text += number.isFinite ? String((number * 10).rounded() / 10) : "0"
    }

    mutating func appendInterpolation(_ html: HTML) { text += html.text }

    mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { text += part.text } }

    mutating func appendInterpolation(_ html: HTML?) { text += html?.text ?? "" }
  }
}

extension String {
  private static let entities: [Unicode.Scalar: String] = [
    "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;", "'": "&#39;", "`": "&#96;",
  ]

  /// The text with HTML's special characters escaped. Control characters and marks that change the direction
  /// of writing are shown as escapes, so that a name cannot pose as another.
  fileprivate var escaped: String {
    unicodeScalars.reduce(into: "") { text, scalar in
      if let entity = Self.entities[scalar] {
        text += entity
      } else if scalar.isHidden {
        text += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        text.unicodeScalars.append(scalar)
      }
    }
  }
}

extension Unicode.Scalar {
  /// Whether it is obeyed instead of shown, or shown as nothing.
  fileprivate var isHidden: Bool {
    switch value {
    case 0x200B...0x200D, 0x2060...0x2065, 0xFEFF, 0xFFF9...0xFFFB: true
    default: isControlling
    }
  }
}

/// The style sheet of the pages. Each page embeds it, and the content security policy allows it by its hash
/// and no other.
enum AdminStyle {
  /// The content security policy: this style sheet and forms to this origin only.
  static let contentSecurityPolicy = """
    default-src 'none'; style-src 'sha256-\(Data(SHA256.hash(data: Data(text.utf8))).base64EncodedString())'; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'
    """

  /// The `<style>` element. Browsers hash exactly the text between its tags.
  static let element: HTML =
    """
    <style>
    :root{color-scheme:light dark;--ground:#f6f7f9;--card:#fff;--text:#1b1f24;--faint:#5b6470;
      --line:#d9dee5;--good:#18794e;--doubtful:#8a5300;--bad:#c0262d;--accent:#2360c5;--soft:#9db9ea}
    @media(prefers-color-scheme:dark){:root{--ground:#101418;--card:#191f26;--text:#e6e9ed;--faint:#9aa5b1;
      --line:#2e3742;--good:#4cc38a;--doubtful:#f1a10d;--bad:#ff8589;--accent:#7aa9ff;--soft:#34507f}}
    *{box-sizing:border-box}
    body{margin:0;background:var(--ground);color:var(--text);font:15px/1.45 system-ui,sans-serif}
    header,main{max-width:76rem;margin:0 auto;padding:.75rem 1rem}
    header{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;justify-content:space-between}
    time{white-space:nowrap}
    header strong a{color:inherit;text-decoration:none}
    form{display:flex;gap:.4rem;margin:0;flex-wrap:wrap}
    input,button{font:inherit;padding:.3rem .6rem;border:1px solid var(--line);border-radius:.4rem;
      background:var(--card);color:var(--text);min-width:0}
    input[type=search]{width:19rem;max-width:100%}
    button{cursor:pointer}
    a{color:var(--accent)}
    h1{font-size:1.15rem;margin:0 0 .3rem}
    h2{font-size:1rem;margin:0 0 .5rem}
    p{margin:.3rem 0}
    section{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.8rem 1rem;
      margin:0 0 .8rem}
    .scroll{overflow-x:auto}
    .two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:0 .8rem}
    .light{border-left:.5rem solid var(--good)}
    .light.doubtful{border-left-color:var(--doubtful)}
    .light.bad{border-left-color:var(--bad)}
    .word{font-weight:700;color:var(--good)}
    .doubtful .word,.word.doubtful,td.doubtful{color:var(--doubtful)}
    .bad .word,.word.bad,td.bad{color:var(--bad)}
    .faint,td.faint{color:var(--faint)}
    table{border-collapse:collapse;width:100%}
    th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);
      vertical-align:top;overflow-wrap:break-word}
    .code,td:first-child,td:last-child{overflow-wrap:anywhere}
    td:first-child:has(.code){min-width:9rem}
    tr:last-child td{border-bottom:0}
    th{font-weight:600;color:var(--faint);font-size:.85rem;overflow-wrap:normal}
    .n{text-align:right;padding-right:1.2rem;white-space:nowrap;font-variant-numeric:tabular-nums;overflow-wrap:normal}
    .t{white-space:nowrap;overflow-wrap:normal}
    .code{font-family:ui-monospace,monospace;font-size:.85em}
    .figures{display:flex;flex-wrap:wrap;gap:.3rem 1.5rem;margin:0 0 .5rem}
    .figures b{display:block;font-size:1.25rem;font-weight:650;font-variant-numeric:tabular-nums}
    svg{display:block;width:100%;height:7rem}
    svg .a{fill:var(--accent)}
    svg .b{fill:var(--bad)}
    svg .c{fill:var(--soft)}
    svg .l{fill:none;stroke:var(--accent);stroke-width:2;vector-effect:non-scaling-stroke}
    svg .m{fill:none;stroke:var(--doubtful);stroke-width:2;vector-effect:non-scaling-stroke}
    svg .g{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}
    .axis{display:flex;justify-content:space-between;color:var(--faint);font-size:.8rem}
    .key{display:inline-block;width:.7rem;height:.7rem;border-radius:.15rem;margin-right:.3rem}
    .key.a{background:var(--accent)}.key.b{background:var(--bad)}.key.c{background:var(--soft)}.key.m{
      background:var(--doubtful)}
    dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.3rem 0}
    dt{color:var(--faint)}
    dd{margin:0;overflow-wrap:anywhere}
    @media(max-width:48rem){body{font-size:14px}dl{grid-template-columns:1fr}dt{margin-top:.3rem}
      form[role=search]{flex:1 0 100%;order:1}input[type=search]{flex:1;width:auto}
      thead,td:has(>.none){display:none}table,tbody{display:block}
      tr{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.4rem 0;border-bottom:1px solid var(--line)}
      tr:last-child{border-bottom:0}td,.n{border:0;padding:0;text-align:left;white-space:normal;overflow-wrap:anywhere}
      td:first-child{flex:1 0 100%;font-weight:600}td:not(:first-child)::before{content:attr(data-heading)": ";
      color:var(--faint)}}
    </style>
    """

  /// The text between the tags.
  private static var text: String {
    String(element.text.dropFirst("<style>".count).dropLast("</style>".count))
  }
}
