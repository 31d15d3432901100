import Providers
import SwiftSyntax

/// A place of a file and what may stand there instead.
struct Candidate {
  let kind: String
  /// Offsets in the file's UTF-8.
  let range: Range<Int>
  let line: Int
  let original: String
  let changed: String
  /// What stands in the place in the end, by the mutant's number.
  let replacement: (Int) -> String
}

/// Finds the places of a file where a small change makes a fault. The tree's operators must be folded.
final class Finder: SyntaxVisitor {
  private(set) var candidates: [Candidate] = []
  private let converter: SourceLocationConverter

  init(_ converter: SourceLocationConverter) {
    self.converter = converter
    super.init(viewMode: .sourceAccurate)
  }

  private func add(
    _ kind: String, _ node: some SyntaxProtocol, _ changed: String, _ replacement: @escaping (Int) -> String
  ) {
    let (start, end) = (node.positionAfterSkippingLeadingTrivia, node.endPositionBeforeTrailingTrivia)
    candidates.append(
      Candidate(
        kind: kind, range: start.utf8Offset..<end.utf8Offset, line: converter.location(for: start).line,
        original: node.trimmedDescription, changed: changed, replacement: replacement))
  }

  /// An expression that becomes another one of the same type.
  private func exchange(_ kind: String, _ node: some ExprSyntaxProtocol, for changed: String) {
    let original = node.trimmedDescription
    add(kind, node, changed) { "(mutant(\($0)) ? \(changed) : \(original))" }
  }

  /// An expression that is no longer than a few lines, and may stand twice.
  private func isSmall(_ node: some SyntaxProtocol) -> Bool {
    let text = node.trimmedDescription
    return text.utf8.count <= 240 && !text.contains("{") && !text.contains("try ") && !text.contains("await ")
  }

  // MARK: - Places where no fault is wanted

  override func visit(_ node: AttributeSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
  override func visit(_ node: EnumCaseDeclSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
  override func visit(_ node: ExpressionPatternSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
  override func visit(_ node: FunctionParameterSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
  override func visit(_ node: IfConfigDeclSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
  override func visit(_ node: MacroExpansionExprSyntax) -> SyntaxVisitorContinueKind { .skipChildren }

  // MARK: - Expressions

  override func visit(_ node: BooleanLiteralExprSyntax) -> SyntaxVisitorContinueKind {
    exchange("literal", node, for: node.literal.text == "true" ? "false" : "true")
    return .skipChildren
  }

  override func visit(_ node: InfixOperatorExprSyntax) -> SyntaxVisitorContinueKind {
    guard let operation = node.operator.as(BinaryOperatorExprSyntax.self)?.operator.text, isSmall(node) else {
      return .visitChildren
    }
    let (left, right) = (node.leftOperand.trimmedDescription, node.rightOperand.trimmedDescription)
    // A bound off by one, and the opposite.
    let comparisons = [
      "<": ["<=", ">"], "<=": ["<", ">"], ">": [">=", "<"], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    ]
    for other in comparisons[operation] ?? [] {
      exchange("comparison", node, for: "\(left) \(other) \(right)")
    }
    switch operation {
    case "&&", "||":
      exchange("condition lost", node, for: left)
      exchange("condition lost", node, for: right)
    case "??": exchange("default", node, for: right)
    case "+", "-":
      // Of a number; texts and lists are joined with the same sign.
      if node.rightOperand.is(IntegerLiteralExprSyntax.self) { exchange("off by one", node, for: left) }
    default: break
    }
    return .visitChildren
  }

  override func visit(_ node: ConditionElementSyntax) -> SyntaxVisitorContinueKind {
    if case .expression(let condition) = node.condition { negate(condition) }
    return .visitChildren
  }

  override func visit(_ node: TernaryExprSyntax) -> SyntaxVisitorContinueKind {
    negate(node.condition)
    return .visitChildren
  }

  private func negate(_ condition: ExprSyntax) {
    let condition = condition.withoutEffects
    let original = condition.trimmedDescription
    add("negated", condition, "!(\(original))") { "(mutant(\($0)) != (\(original)))" }
  }

  override func visit(_ node: FunctionCallExprSyntax) -> SyntaxVisitorContinueKind {
    let called = node.calledExpression.trimmedDescription
    if isOnlyTold(called) { return .skipChildren }
    if let other = ["min": "max", "max": "min"][called], isSmall(node) {
      exchange("min and max", node, for: "\(other)(\(node.arguments.trimmedDescription))")
    }
    let bounds = ["prefix", "suffix", "dropFirst", "dropLast"]
    if let name = node.calledExpression.as(MemberAccessExprSyntax.self)?.declName.baseName.text,
      bounds.contains(name), let bound = node.arguments.first, bound.label == nil, node.arguments.count == 1
    {
      let original = bound.expression.trimmedDescription
      add("off by one", bound.expression, "\(original) + 1") { "(mutant(\($0)) ? 1 : 0) + (\(original))" }
    }
    return .visitChildren
  }

  /// Calls whose effect only people and developers see.
  private func isOnlyTold(_ called: String) -> Bool {
    ["logger.", "log."].contains { called.hasPrefix($0) || called.contains(".\($0)") }
      || ["precondition", "assert", "fatalError", "preconditionFailure", "print"].contains(called)
  }

  override func visit(_ node: StringLiteralExprSyntax) -> SyntaxVisitorContinueKind {
    let text = node.trimmedDescription
    let words = #/\b(SELECT|UPDATE|DELETE|WHERE|AND|ON CONFLICT)\b/#
    guard text.contains(words) else { return .visitChildren }
    let condition =
      #/\b(AND|WHERE) (\+?[a-z_.]+ (?:(<=|>=|<>|=|<|>) (?:\$[0-9]+|[a-z_.]+|[0-9]+)|IS (?:NOT )?NULL))(?=[\s")])/#
    for match in text.matches(of: condition) {
      let (word, test) = (match.output.1, match.output.2)
      let lost = text.replacing(match.output.0, with: "\(word) (\(test) OR 1 = 1)", maxReplacements: 1)
      sql(node, lost, "\(word) \(test)", "\(word) true")
      guard let sign = match.output.3 else { continue }
      let others: [Substring: String] = ["<=": "<", ">=": ">", "<": "<=", ">": ">=", "=": "<>", "<>": "="]
      let turned = test.replacing(" \(sign) ", with: " \(others[sign] ?? "=") ")
      sql(node, text.replacing(test, with: turned, maxReplacements: 1), String(test), turned.description)
    }
    return .visitChildren
  }

  private func sql(_ node: StringLiteralExprSyntax, _ changed: String, _ from: String, _ to: String) {
    let original = node.trimmedDescription
    guard changed != original else { return }
    add("SQL", node, "\(from) -> \(to)") { "(mutant(\($0)) ? \(changed) : \(original))" }
  }

  // MARK: - Tables

  override func visit(_ node: SwitchExprSyntax) -> SyntaxVisitorContinueKind {
    let cases = node.cases.compactMap { $0.as(SwitchCaseSyntax.self) }
    for (this, next) in zip(cases, cases.dropFirst()) {
      exchangeRows(this.result, next.result, next.label)
    }
    return .visitChildren
  }

  override func visit(_ node: DictionaryElementListSyntax) -> SyntaxVisitorContinueKind {
    for (this, next) in zip(node, node.dropFirst()) { exchangeRows(this.value, next.value, nil) }
    return .visitChildren
  }

  /// A row of a table gets the answer of the next one.
  private func exchangeRows(_ this: ExprSyntax?, _ next: ExprSyntax?, _ label: SwitchCaseSyntax.Label?) {
    guard let this, let next, this.isRow, next.isRow, isSmall(this), isSmall(next) else { return }
    let changed = next.trimmedDescription
    guard changed != this.trimmedDescription, this.kind == next.kind else { return }
    // A name that its own pattern binds is not known elsewhere.
    let bound = label?.tokens(viewMode: .sourceAccurate).map(\.text) ?? []
    let names = next.tokens(viewMode: .sourceAccurate).filter {
      $0.previousToken(viewMode: .all)?.text != "."
    }
    guard !names.contains(where: { $0.text != ":" && bound.contains($0.text) && $0.tokenKind.isName }) else {
      return
    }
    exchange("row exchanged", this, for: changed)
  }

  // MARK: - Statements

  override func visit(_ node: CodeBlockItemSyntax) -> SyntaxVisitorContinueKind {
    guard case .expr(let expression) = node.item, !node.mayBeResult else { return .visitChildren }
    let core = expression.withoutEffects
    let text = node.trimmedDescription
    guard text.split(separator: "\n").count <= 6 else { return .visitChildren }
    if let call = core.as(FunctionCallExprSyntax.self) {
      let called = call.calledExpression.trimmedDescription
      if isOnlyTold(called) { return .skipChildren }
      guard !called.hasPrefix("super."), !called.hasSuffix(".init") else { return .visitChildren }
      add("left out", node, "") { "if !mutant(\($0)) { \(text) }" }
    } else if let infix = core.as(InfixOperatorExprSyntax.self), !node.isInInitializer,
      infix.operator.is(AssignmentExprSyntax.self) || infix.operator.trimmedDescription.hasSuffix("=")
    {
      add("left out", node, "") { "if !mutant(\($0)) { \(text) }" }
    }
    return .visitChildren
  }
}

extension ExprSyntax {
  /// The expression after `try` and `await`.
  fileprivate var withoutEffects: ExprSyntax {
    if let node = self.as(TryExprSyntax.self) { return node.expression.withoutEffects }
    if let node = self.as(AwaitExprSyntax.self) { return node.expression.withoutEffects }
    return self
  }

  /// An answer as tables have them: a case, with or without values, a tuple of those, a name or a number.
  fileprivate var isRow: Bool {
    if let call = self.as(FunctionCallExprSyntax.self) {
      return call.calledExpression.as(MemberAccessExprSyntax.self).map { $0.base == nil } ?? false
    }
    if let member = self.as(MemberAccessExprSyntax.self) { return member.base == nil }
    if self.is(StringLiteralExprSyntax.self) {
      return !trimmedDescription.contains(" ") && !trimmedDescription.contains("\\(")
    }
    return self.is(TupleExprSyntax.self) || self.is(IntegerLiteralExprSyntax.self)
      || self.is(ArrayExprSyntax.self)
  }
}

extension TokenKind {
  fileprivate var isName: Bool { if case .identifier = self { true } else { false } }
}

extension SwitchCaseSyntax {
  /// What the case gives or returns, if it does nothing else.
  fileprivate var result: ExprSyntax? {
    guard statements.count == 1, let item = statements.first?.item else { return nil }
    if case .expr(let expression) = item { return expression }
    if case .stmt(let statement) = item { return statement.as(ReturnStmtSyntax.self)?.expression }
    return nil
  }
}

extension CodeBlockItemSyntax {
  private var callable: Syntax? {
    sequence(first: Syntax(self), next: \.parent).first {
      $0.is(FunctionDeclSyntax.self) || $0.is(InitializerDeclSyntax.self) || $0.is(ClosureExprSyntax.self)
        || $0.is(AccessorBlockSyntax.self) || $0.is(DeinitializerDeclSyntax.self)
        || $0.is(DeferStmtSyntax.self)
    }
  }

  fileprivate var isInInitializer: Bool { callable?.is(InitializerDeclSyntax.self) ?? false }

  /// A statement that stands alone may be the value of what it is in.
  fileprivate var mayBeResult: Bool {
    guard let list = parent?.as(CodeBlockItemListSyntax.self), list.count == 1 else { return false }
    guard let callable else { return true }
    if let function = callable.as(FunctionDeclSyntax.self) { return function.signature.returnClause != nil }
    return callable.is(ClosureExprSyntax.self) || callable.is(AccessorBlockSyntax.self)
  }
}
