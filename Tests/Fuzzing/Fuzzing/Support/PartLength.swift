/// One of the lengths: that of the parts in which a parser gets the bytes a second time. The bytes decide on it, so that a
/// case says the same each time. Nil where there would be one part, and for long inputs, which show how time grows.
func partLength(of bytes: [UInt8], among lengths: Int...) -> Int? {
  let length = lengths[(bytes.count + Int(bytes.last ?? 0)) % lengths.count]
  return length < bytes.count && bytes.count <= longestInParts ? length : nil
}

/// What is longer, in bytes, is read whole only.
let longestInParts = 4096
