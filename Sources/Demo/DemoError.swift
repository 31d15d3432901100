/// What did not happen as it should, for whoever watches.
package struct DemoError: Error, CustomStringConvertible {
  package let description: String

  package init(_ description: String) {
    self.description = description
  }
}
