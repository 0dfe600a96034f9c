#include "core/tokenizer/split_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.hpp"

namespace wmtp {
namespace {

constexpr const char* white_space =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

/// The expression with \s and \S expanded; \S inside a class is left to PCRE2.
std::string for_pcre2(const std::string& expression) {
  std::string text;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c != '\\' || i + 1 == expression.size()) {
      if (c == '[' && !in_class)
        in_class = true;
      else if (c == ']' && in_class)
        in_class = false;
      text += c;
      continue;
    }
    const char escaped = expression[++i];
    if (escaped == 's')
      text += in_class ? white_space : std::string("[") + white_space + "]";
    else if (escaped == 'S' && !in_class)
      text += std::string("[^") + white_space + "]";
    else
      text += {c, escaped};
  }
  return text;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct SplitPattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
  ~Compiled() {
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }
};

SplitPattern::SplitPattern(const std::string& expression, const std::string& where)
    : compiled_(std::make_unique<Compiled>()), where_(where) {
  const std::string text = for_pcre2(expression);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF | PCRE2_UCP, &error,
                                  &offset, nullptr);
  if (!compiled_->code) throw Error(ExitStatus::data, where + ": unsupported expression: " + message_of(error));
  pcre2_jit_compile(compiled_->code,
                    PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);  // may fail: matching is then just slower
  compiled_->data = pcre2_match_data_create_from_pattern(compiled_->code, nullptr);
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

SplitPattern::Match SplitPattern::find(std::string_view text, size_t from, bool more_follows) const {
  const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | (more_follows ? PCRE2_PARTIAL_HARD : 0);
  const int found = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, options,
                                compiled_->data, nullptr);
  if (found == PCRE2_ERROR_NOMATCH) return {Match::Kind::none, text.size(), text.size()};
  if (found < 0 && found != PCRE2_ERROR_PARTIAL)
    throw Error(ExitStatus::data, where_ + ": matching a text failed: " + message_of(found));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(compiled_->data);
  return {found == PCRE2_ERROR_PARTIAL ? Match::Kind::undecided : Match::Kind::found, bounds[0], bounds[1]};
}

}  // namespace wmtp
