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

  @Test(arguments: Reason.allCases)
  func `Advice that is to do nothing begins with it, and says at once what to do if that is not enough`(
    reason: Reason
  ) {
    let sentences = reason.explanation.advice
    #expect(!sentences.contains("does not pass"), "\(sentences)")
    for beginning in ["No action needed", "Usually passes by itself:"] {
      #expect(!sentences.dropFirst().contains(beginning), "\(sentences)")
    }
    #expect(
      sentences.hasPrefix("Usually passes by itself:") == sentences.contains("If it lasts: "), "\(sentences)")
  }

  @Test func `Every reason has a sentence of its own`() {
    let meanings = Dictionary(grouping: Reason.allCases, by: \.explanation.meaning)
    for (meaning, reasons) in meanings { #expect(reasons.count == 1, "\(reasons): \(meaning)") }
  }

  @Test func `A refused request is not told as a refused connection`() {
    #expect(Reason.refused.explanation.meaning.hasPrefix("Connections are open"))
    #expect(Reason.refused.explanation != Reason.connectionLost.explanation)
  }

  @Test func `A reason that was written down is explained by its name`() {
    #expect(Explanation.of("TopicDisallowed") == Reason.topicDisallowed.explanation)
    for name in ["", "NeverHeardOf", "topicdisallowed"] {
      #expect(Explanation.of(name).meaning.contains("does not know"), "\(name)")
    }
  }
}
