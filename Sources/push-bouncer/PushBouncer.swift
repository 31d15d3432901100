@main
enum PushBouncer {
  static func main() {}
}
