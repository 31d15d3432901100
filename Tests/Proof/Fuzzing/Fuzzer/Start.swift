/// The entry point that SwiftPM expects of an executable of this name, which would not find libFuzzer's own
/// `main`.
@_cdecl("fuzz_main")
public func start(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
) -> CInt {
  var (count, arguments) = (count, arguments)
  return runLibFuzzer(&count, &arguments) { testOneInput($0, $1) }
}

/// C's calling convention is Swift's for three words.
@_silgen_name("LLVMFuzzerRunDriver")
private func runLibFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
  _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt
