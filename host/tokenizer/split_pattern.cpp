#include "tokenizer/split_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/split_syntax.hpp"

namespace wmtp {
namespace {

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
  const auto [text, looks_back] = pcre2_expression(expression, where);
  looks_back_ = looks_back;
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF | PCRE2_UCP, &error,
                                  &offset, nullptr);
  if (!compiled_->code)
    throw Error(ExitStatus::data,
                where + ": unsupported expression: " + message_of(error) + ", in " + printable(expression));
  pcre2_jit_compile(compiled_->code,
                    PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);  // may fail: matching is then just slower
  compiled_->data = pcre2_match_data_create_from_pattern(compiled_->code, nullptr);
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

SplitPattern::Match SplitPattern::find(std::string_view text, size_t from, bool more_follows) const {
  const uint32_t options = PCRE2_NO_UTF_CHECK | (more_follows ? PCRE2_PARTIAL_HARD : 0);
  const auto match = [&](uint32_t more_options) {
    return pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       options | more_options, compiled_->data, nullptr);
  };
  int found = match(0);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);  // which remembers its way on the heap
  if (found == PCRE2_ERROR_NOMATCH) return {Match::Kind::none, text.size(), text.size()};
  if (found < 0 && found != PCRE2_ERROR_PARTIAL)
    throw Error(ExitStatus::data,
                where_ + ": matching a text failed: " + message_of(found) +
                    "; split the text's longest lines and words into shorter ones, or use a tokenizer "
                    "whose pattern backtracks less");
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(compiled_->data);
  return {found == PCRE2_ERROR_PARTIAL ? Match::Kind::undecided : Match::Kind::found, bounds[0], bounds[1]};
}

}  // namespace wmtp
