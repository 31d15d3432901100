package import Basics

/// Who runs the service.
package struct OperatorSettings: Sendable {
  package init() {}

  @Setting("operator.email", .text("push@example.org"), "contact that error texts name")
  package var email: String?
}
