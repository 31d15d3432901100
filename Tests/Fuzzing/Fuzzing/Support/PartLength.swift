/// One of the lengths: that of the parts in which a parser gets the bytes a second time. The bytes decide on it, so that a
/// case says the same each time. Nil where there would be one part, or too many for the time that an input has.
func partLength(of bytes: [UInt8], among lengths: Int...) -> Int? {
  let length = lengths[(bytes.count + Int(bytes.last ?? 0)) % lengths.count]
  return length < bytes.count && bytes.count / length < 5000 ? length : nil
}
