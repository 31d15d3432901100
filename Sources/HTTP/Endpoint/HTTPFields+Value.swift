package import HTTPTypes

extension HTTPFields {
  /// The same as `self[name]`, which joins even a single value: several times as fast where there is one or none.
  package func value(_ name: HTTPField.Name) -> String? {
    guard let index = firstIndex(where: { $0.name == name }) else { return nil }
    let isAlone = !self[(index + 1)...].contains { $0.name == name }
    return isAlone ? self[index].value : self[name]
  }
}
