// The syntax of expressions that split a text, which are written for Oniguruma in files of the tokenizers library. Only
// what can be given the same meaning in PCRE2 is accepted, so that no file's ids differ silently.
#pragma once

#include <string>

namespace wmtp {

struct Pcre2Expression {
  std::string text;
  bool looks_back = false;  ///< a match depends on the text before it
};

/// An expression (UTF-8) that matches the same in PCRE2, with Unicode properties. Error(data), which starts with
/// `where`, names what is not supported.
Pcre2Expression pcre2_expression(const std::string& expression, const std::string& where);

}  // namespace wmtp
