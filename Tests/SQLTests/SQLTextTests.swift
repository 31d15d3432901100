import Testing

@testable import SQL

@Suite("Parameters in texts")
struct SQLTextTests {
  @Test(arguments: [
    ("SELECT $1", "SELECT ?1"),
    ("$1=$22", "?1=?22"),
    ("SELECT '$1'", "SELECT '$1'"),
    ("SELECT 'it''s $1', $1", "SELECT 'it''s $1', ?1"),
    ("SELECT \"a$1\"\"$2\", $3", "SELECT \"a$1\"\"$2\", ?3"),
    ("a$1 + $1", "a$1 + ?1"),
    ("ü$1 + $1", "ü$1 + ?1"),
    ("$1 -- $2 isn't\n$3", "?1 -- $2 isn't\n?3"),
    ("$1 /* $2 * '/ */ $3", "?1 /* $2 * '/ */ ?3"),
    ("/*/ $1 */ $2", "/*/ $1 */ ?2"),
    ("1-$1/$2", "1-?1/?2"),
    ("$ $a $", "$ $a $"),
    ("'open $1", "'open $1"),
    ("/* open $1", "/* open $1"),
    ("-- $1", "-- $1"),
    ("/", "/"), ("", ""),
  ])
  func `only parameters are rewritten`(sql: String, expected: String) {
    #expect(SQLText.withQuestionMarks(sql) == expected)
  }
}
