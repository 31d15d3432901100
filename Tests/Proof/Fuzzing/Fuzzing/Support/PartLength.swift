/// The length of the parts in which a parser gets the bytes a second time. It is chosen from `lengths` by the
/// bytes, so that a case always runs the same way. Nil if there would be only one part, and for long inputs,
/// whose purpose is to show how time grows.
func partLength(of bytes: [UInt8], among lengths: Int...) -> Int? {
  let length = lengths[(bytes.count + Int(bytes.last ?? 0)) % lengths.count]
  return length < bytes.count && bytes.count <= longestInParts ? length : nil
}

/// Longer inputs, in bytes, are only read in one piece.
let longestInParts = 4096
