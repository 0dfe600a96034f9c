// A regular expression that splits text into words, with Unicode classes and lookahead, as in files of the tokenizers
// library. Matched by PCRE2, whereas that library uses Oniguruma; tokenizer/split_syntax.hpp rewrites the expression.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace wmtp {

class SplitPattern {
 public:
  /// Error(data), which starts with `where`, if the expression is invalid or not supported.
  SplitPattern(const std::string& expression, const std::string& where);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;

  struct Match {
    enum class Kind { found, none, undecided } kind = Kind::none;
    size_t begin = 0, end = 0;
  };
  /// Whether a match depends on the text before it, so that a text must not be divided before it is matched.
  bool looks_back() const { return looks_back_; }
  /// The first match in `text` (UTF-8) at or after byte `from`; it may be empty. If `more_follows`, the text may
  /// continue: undecided if the continuation could change the match. Error(data) if matching takes more steps than
  /// PCRE2 allows. Not thread-safe.
  Match find(std::string_view text, size_t from, bool more_follows) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string where_;
  bool looks_back_ = false;
};

}  // namespace wmtp
