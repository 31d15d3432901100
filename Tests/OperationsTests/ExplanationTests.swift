import Operations
import Providers
import Testing

@Suite struct ExplanationTests {
  @Test(arguments: Reason.allCases)
  func `Every reason has plain sentences for what it means and what to do`(reason: Reason) {
    let explanation = reason.explanation
    for text in [explanation.meaning, explanation.advice] {
      #expect(text.first?.isUppercase == true && text.hasSuffix("."), "\(text)")
      #expect(!text.contains("\n") && !text.contains("  ") && !text.contains(reason.description), "\(text)")
    }
    #expect((explanation == Reason.unknown.explanation) == (reason == .unknown), "\(reason)")
  }

  @Test func `A reason that was written down is explained by its name`() {
    #expect(Explanation.of("TopicDisallowed") == Reason.topicDisallowed.explanation)
    for name in ["", "NeverHeardOf", "topicdisallowed"] {
      #expect(Explanation.of(name).meaning.contains("does not know"), "\(name)")
    }
  }
}
