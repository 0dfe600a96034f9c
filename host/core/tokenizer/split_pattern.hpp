// A regular expression that splits text into words, with Unicode classes and lookahead, as in files of the tokenizers
// library. Matched by PCRE2, whereas that library uses Oniguruma. Where the two differ, the expression is rewritten: \s
// is Unicode's White_Space in both (PCRE2 alone would include U+180E).
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace wmtp {

class SplitPattern {
 public:
  /// Error(data) with PCRE2's message if the expression is invalid; starts with `where`.
  SplitPattern(const std::string& expression, const std::string& where);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;

  struct Match {
    enum class Kind { found, none, undecided } kind = Kind::none;
    size_t begin = 0, end = 0;
  };
  /// The first nonempty match in `text` (UTF-8) at or after byte `from`. If `more_follows`, the text may continue:
  /// undecided if the continuation could change the match. Error(data) if matching takes more steps than PCRE2 allows.
  /// Not thread-safe.
  Match find(std::string_view text, size_t from, bool more_follows) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string where_;
};

}  // namespace wmtp
