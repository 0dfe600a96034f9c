#include "tokenizer/split_syntax.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

// Contents of classes. White_Space, and all other characters; PCRE2's \s includes U+180E.
constexpr std::string_view white_space =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr std::string_view no_white_space =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
// Combining marks belong to words, unlike in PCRE2. Latin-1's fractions and powers do so outside of classes only.
constexpr std::string_view word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view latin1_numbers = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

constexpr int max_depth = 100;

bool is_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }

/// Whether a property is a general category, as L and Lu, rather than a script. PCRE2 knows which of either exist.
bool is_category(std::string_view name) {
  return std::string_view("LMNPSZC").find(name[0]) != std::string_view::npos && name.size() <= 2 &&
         (name.size() == 1 || name[1] >= 'a');
}

std::string written(char32_t code) {
  if (is_letter(code) || is_digit(code)) return std::string(1, char(code));
  return printed("\\x{%x}", unsigned(code));
}

/// Descends through an expression and writes that of PCRE2 to out_. What reads a part returns whether the part matches
/// an empty text, too.
class Translation {
 public:
  Translation(std::string_view expression, const std::string& where) : in_(expression), where_(where) {}

  Pcre2Expression made() {
    alternatives();
    if (!at_end()) refuse("a ) without its (");
    return {std::move(out_), looks_back_};
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitStatus::data, where_ + ": unsupported expression: " + what + ", at byte " + std::to_string(at_) +
                                      " of " + printable(in_));
  }

  bool at_end() const { return at_ == in_.size(); }
  std::string_view rest() const { return in_.substr(at_); }
  bool sees(std::string_view text) const { return rest().starts_with(text); }
  bool takes(std::string_view text) {
    if (!sees(text)) return false;
    at_ += text.size();
    return true;
  }

  char32_t character() {
    if (at_end()) refuse("it ends too early");
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(rest().data()),
                                                   utf8proc_ssize_t(rest().size()), &code);
    if (size < 1) refuse("invalid UTF-8");
    at_ += size_t(size);
    return char32_t(code);
  }

  bool alternatives() {
    if (++depth_ > max_depth) refuse("more than " + std::to_string(max_depth) + " groups in each other");
    const bool folds = folds_;
    if (takes("(?i)")) {  // elsewhere it makes a group of all that follows
      out_ += "(?i)";
      folds_ = true;
    }
    bool empty = sequence();
    while (takes("|")) {
      last_ = 0;
      out_ += '|';
      empty = sequence() || empty;
    }
    folds_ = folds;
    --depth_;
    return empty;
  }

  bool sequence() {
    bool empty = true;
    while (!at_end() && !sees("|") && !sees(")")) {
      is_assertion_ = false;
      const size_t begin = out_.size();
      const bool part_empty = part();
      empty = quantified(begin, part_empty) && empty;
    }
    return empty;
  }

  bool part() {
    if (takes("(")) return group();
    if (takes("^")) return assertion("(?:\\A|(?<=\\n)(?!\\z))", /*looks_back=*/true);  // of a line, as $
    if (takes("$")) return assertion("(?![^\\n])");
    if (takes("\\A")) return assertion("\\A", /*looks_back=*/true);
    if (takes("\\z")) return assertion("\\z");
    if (takes(".")) return set("[^\\n]");
    if (takes("[")) {
      out_ += '[';
      class_items(/*nested=*/false);
      return set("]");
    }
    if (sees("*") || sees("+") || sees("?")) refuse("a quantifier of nothing");
    if (sees("{")) refuse("a { that begins no quantifier (write \\{)");
    if (!takes("\\")) return literal(character());
    if (takes("w")) return set("[" + std::string(word).append(latin1_numbers) + "]");
    if (takes("W")) return set("[^" + std::string(word).append(latin1_numbers) + "]");
    const std::string of_escape = set_of_escape();
    return of_escape.empty() ? literal(escaped_character()) : set("[" + of_escape + "]");
  }

  bool assertion(std::string_view text, bool looks_back = false) {
    out_ += text;
    last_ = 0;
    is_assertion_ = true;
    looks_back_ = looks_back_ || looks_back;
    return true;
  }

  bool set(std::string_view text) {
    out_ += text;
    last_ = 0;
    return false;
  }

  bool literal(char32_t code) {
    if (folds_) check_folds(code);
    out_ += written(code);
    return false;
  }

  /// Without case, one character of a text can match several of Oniguruma's: ß is ss.
  void check_folds(char32_t code) {
    static constexpr std::array<std::string_view, 5> folded{"ss", "ff", "fi", "fl", "st"};
    check_ascii(code);
    const char small = char(is_letter(code) ? code | 0x20 : code);
    for (const std::string_view pair : folded)
      if (pair[0] == last_ && pair[1] == small) refuse("\"" + std::string(pair) + "\" within (?i)");
    last_ = small;
  }

  void check_ascii(char32_t code) const {
    if (folds_ && code > 0x7f) refuse("a character that is not ASCII within (?i)");
  }

  bool group() {
    static constexpr std::array<std::string_view, 4> assertions{"?=", "?!", "?<=", "?<!"};
    for (const std::string_view sign : assertions) {
      if (!takes(sign)) continue;
      out_ += '(' + std::string(sign);
      last_ = 0;
      alternatives();
      if (!takes(")")) refuse("a missing )");
      return assertion(")", /*looks_back=*/sign[1] == '<');
    }
    const bool folds = folds_, adds = takes("?i:"), atomic = !adds && takes("?>");
    if (!adds && !atomic && !takes("?:") && sees("?")) refuse("the group (" + std::string(rest().substr(0, 2)));
    out_ += adds ? "(?i:" : atomic ? "(?>" : "(?:";  // nothing refers to what a group captures
    folds_ = folds || adds;
    const bool empty = alternatives();
    if (!takes(")")) refuse("a missing )");
    out_ += ')';
    folds_ = folds;
    is_assertion_ = false;
    return empty;
  }

  /// Reads the quantifier, if there is one, of the part written at `begin`, which matches an empty text or not.
  bool quantified(size_t begin, bool empty) {
    const bool interval = sees("{");
    bool optional = true, endless = true;
    if (interval)
      read_interval(optional, endless);
    else if (takes("*"))
      out_ += '*';
    else if (takes("+"))
      out_ += '+', optional = false;
    else if (takes("?"))
      out_ += '?', endless = false;
    else
      return empty;
    if (is_assertion_) refuse("a quantifier of an assertion");
    if (interval && takes("+")) {  // repeats the repetition, unlike in PCRE2
      out_.insert(begin, "(?:").append(")+");
      empty = empty || optional;
      endless = true;
    }
    if (endless && empty) refuse("an endless repetition of what may be empty");
    if (takes("?"))
      out_ += '?';
    else if (takes("+"))
      out_ += '+';
    if (sees("*") || sees("+") || sees("?") || sees("{")) refuse("a quantifier of a quantifier");
    if (!interval) last_ = 0;
    return empty || optional;
  }

  /// {2}, {2,}, {2,3} or {,3}
  void read_interval(bool& optional, bool& endless) {
    const size_t end = std::min(rest().find('}'), rest().size());
    const std::string_view inside = rest().substr(1, end - 1);
    const size_t comma = std::min(inside.find(','), inside.size());
    const bool one = comma == inside.size();
    const std::string_view low = inside.substr(0, comma), high = one ? low : inside.substr(comma + 1);
    const auto least = parsed_number<uint16_t>(low.empty() && !one ? "0" : low), most = parsed_number<uint16_t>(high);
    if (end == rest().size() || !least || (!most && !high.empty()) || (high.empty() && low.empty()))
      refuse("a { that begins no quantifier (write \\{)");
    if (most && *most < *least) refuse("an interval whose end is before its begin");
    at_ += end + 1;
    if (one && sees("?")) refuse("a ? behind {" + std::string(low) + "}");
    out_ += printed("{%d,", *least) + (most ? std::to_string(*most) : "") + "}";
    optional = *least == 0;
    endless = !most;
  }

  /// The contents of a class that mean the same as \s, \d, \p{…} or their opposites; "" if none of them follows a \.
  std::string set_of_escape() {
    if (takes("s")) return std::string(white_space);
    if (takes("S")) return std::string(no_white_space);
    if (takes("d")) return "\\p{Nd}";
    if (takes("D")) return "\\P{Nd}";
    const bool opposite = sees("P");
    if (!takes("p") && !takes("P")) return "";
    const bool braced = takes("{"), negated = takes("^") != opposite;
    const std::string_view name = rest().substr(0, rest().find('}'));
    if (!braced || name.empty() || !std::ranges::all_of(name, is_letter)) refuse("the property " + printable(name));
    if (folds_) refuse("a property within (?i)");  // Oniguruma adds the other cases to some
    at_ += name.size();
    if (!takes("}")) refuse("a missing }");
    // Without sc: a script would include the characters that it shares with others.
    return std::string(negated ? "\\P{" : "\\p{").append(is_category(name) ? "" : "sc:").append(name) + "}";
  }

  /// A character written as \n, \., \u0041, \x41 or \x{41}, behind the \.
  char32_t escaped_character() {
    static constexpr std::string_view letters = "tnrfae", codes = "\t\n\r\f\a\x1b";
    if (sees("x") || sees("u")) return character_of_code();
    const char32_t letter = character();
    if (const size_t at = letters.find(char(letter)); letter <= 0x7f && at != std::string_view::npos)
      return uint8_t(codes[at]);
    if (is_letter(letter) || is_digit(letter)) refuse(std::string("\\") + char(letter));
    if (letter < ' ' || letter > '~') refuse("a \\ before a control character or one that is not ASCII");
    return letter;
  }

  char32_t character_of_code() {
    const bool is_short = character() == 'x', braced = is_short && takes("{");
    const std::string_view digits = rest().substr(0, braced ? rest().find('}') : is_short ? 2 : 4);
    uint32_t code = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    const bool whole = failed == std::errc() && end == digits.data() + digits.size();
    if (!whole || (!braced && digits.size() != (is_short ? 2 : 4)) || !utf8proc_codepoint_valid(int32_t(code)))
      refuse("a code that is not that of a character");
    if (is_short && !braced && code > 0x7f) refuse("a byte of a character (write \\x{" + std::string(digits) + "})");
    at_ += digits.size();
    if (braced && !takes("}")) refuse("a missing }");
    return code;
  }

  /// Reads the rest of a class behind its [. The characters of a class in it are added to its own.
  void class_items(bool nested) {
    if (++depth_ > max_depth) refuse("more than " + std::to_string(max_depth) + " classes in each other");
    if (sees(":")) refuse("a class of POSIX");
    if (takes("^")) {
      if (nested) refuse("a class with ^ in a class");
      out_ += '^';
    }
    if (sees("]")) refuse("a class that begins with ]");
    for (bool first = true; !takes("]"); first = false) {
      if (sees("&&")) refuse("&& in a class");
      if (sees("-") && !sees("-]") && (!first || sees("--"))) refuse("a - of no range in a class (write \\-)");
      takes("[") ? class_items(/*nested=*/true) : class_item();
    }
    --depth_;
  }

  void class_item() {
    const bool escape = takes("\\");
    if (escape && folds_ && sees("w")) refuse("\\w within (?i)");
    const std::string items = !escape ? "" : takes("w") ? std::string(word) : set_of_escape();
    out_ += items;
    if (!items.empty()) return;
    const char32_t low = escape ? escaped_character() : character();
    check_ascii(low);
    out_ += written(low);
    if (!sees("-") || sees("-]")) return;
    takes("-");
    if (sees("[")) refuse("a range that ends with a class");
    const char32_t high = takes("\\") ? escaped_character() : character();
    check_ascii(high);
    if (high < low) refuse("a range whose end is before its begin");
    out_ += '-' + written(high);
  }

  std::string_view in_;
  const std::string& where_;
  size_t at_ = 0;
  std::string out_;
  int depth_ = 0;
  bool folds_ = false;         ///< within (?i)
  char last_ = 0;              ///< within (?i), the character before; 0 if there is none
  bool is_assertion_ = false;  ///< the last part
  bool looks_back_ = false;
};

}  // namespace

Pcre2Expression pcre2_expression(const std::string& expression, const std::string& where) {
  return Translation(expression, where).made();
}

}  // namespace wmtp
