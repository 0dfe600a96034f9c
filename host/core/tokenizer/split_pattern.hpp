// A regular expression by which a tokenizer cuts text into the words that it makes ids of: Unicode classes and
// lookahead, as in the files of the tokenizers library. Knows no LibTorch; PCRE2 does the matching.
//
// The library matches with Oniguruma. What the two read differently is written out for PCRE2: \s is Unicode's
// White_Space in both (PCRE2 alone would add U+180E).
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace wmtp {

class SplitPattern {
 public:
  /// Error(data) ends with PCRE2's own words when it is no expression that can be matched. `where` begins it.
  SplitPattern(const std::string& expression, const std::string& where);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;

  struct Match {
    enum class Kind { found, none, undecided } kind = Kind::none;
    size_t begin = 0, end = 0;
  };
  /// The first match in `text` (UTF-8) from byte `from` on that is not empty. With `goes_on`, text follows that is not
  /// known yet: undecided where it could make another match of it. Error(data) where the expression takes more steps
  /// than PCRE2 allows. Not for several threads at once.
  Match find(std::string_view text, size_t from, bool goes_on) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string where_;
};

}  // namespace wmtp
