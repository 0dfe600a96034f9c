#include "compile.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <wmtp/plugin.hpp>

namespace formula {
namespace {

[[noreturn]] void refuse(size_t at, const std::string& message) {
  throw wmtp::BadOption("weight", message, int64_t(at));
}

/// What is known about an operand at compile time. A constant is not on the stack.
struct Operand {
  enum class Kind { constant, of_head, of_token } kind = Kind::constant;
  double number = 0;
  size_t at = 0;
  bool constant() const { return kind == Kind::constant; }
};

struct Function {
  const char* name;
  size_t arguments;
  const char* usage;
};
constexpr std::array<Function, 8> functions = {{{"min", 2, "min(a, b)"},
                                                {"max", 2, "max(a, b)"},
                                                {"clamp", 3, "clamp(x, smallest, largest)"},
                                                {"exp", 1, "exp(x)"},
                                                {"log", 1, "log(x)"},
                                                {"quantile", 2, "quantile(x, q)"},
                                                {"top_mass", 1, "top_mass(k)"},
                                                {"signed", 1, "signed(x)"}}};
constexpr std::string_view spaces = " \t\r\n";
constexpr int max_nesting = 200;
constexpr int64_t max_top_k = 1000;

double folded(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::subtract:
      return a - b;
    case Op::multiply:
      return a * b;
    case Op::divide:
      return a / b;
    case Op::power:
      return std::pow(a, b);
    case Op::less:
      return a < b;
    case Op::greater:
      return a > b;
    case Op::at_most:
      return a <= b;
    case Op::at_least:
      return a >= b;
    case Op::min:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

/// Levenshtein distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

/// What a word like "amateur_loss" reads. The host says whether the experiment has that reference.
std::optional<wmtp::ReferenceSignal> named_reference(const std::string& word) {
  constexpr std::array<std::string_view, 3> other_things{"policy", "value", "data"};
  for (const auto& [suffix, signal] : {std::pair(std::string_view("_loss"), wmtp::Signal::reference_loss),
                                       {"_entropy", wmtp::Signal::reference_entropy}}) {
    if (!word.ends_with(suffix)) continue;
    const std::string name = word.substr(0, word.size() - suffix.size());
    const bool has_capital = std::ranges::any_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
    const bool is_name = !name.empty() && name.size() <= 32 && name[0] != '_' && !has_capital;
    if (is_name && std::ranges::count(other_things, name) == 0) return wmtp::ReferenceSignal{name, signal};
  }
  return std::nullopt;
}

[[noreturn]] void refuse_name(size_t at, const std::string& name) {
  std::vector<std::string> known(signal_names.begin(), signal_names.end());
  for (const Function& function : functions) known.emplace_back(function.name);
  const auto nearest = std::min_element(
      known.begin(), known.end(), [&](const auto& a, const auto& b) { return distance(a, name) < distance(b, name); });
  std::string all;
  for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
  all += ", and NAME_loss and NAME_entropy of a [references.NAME]";
  const bool near = distance(*nearest, name) <= std::max<size_t>(1, name.size() / 3);
  const std::string hint = near ? "; did you mean '" + *nearest + "'?" : ".";
  refuse(at, "unknown name '" + name + "'" + hint + " Known names: " + all);
}

class Compiler {
 public:
  explicit Compiler(const std::string& text) : text_(text) {}

  Program compile() {
    const Operand whole = comparison();
    if (at_ < text_.size())
      refuse(at_, text_[at_] == ')' ? "')' without a '('" : "wanted an operator, found " + found());
    if (whole.constant()) {
      if (whole.number < 0 && !program_.is_signed)
        refuse(0, "the weight of every token would be negative, which only signed(x) may be");
      program_.constant = whole.number;
    }
    return std::move(program_);
  }

 private:
  // ---- text
  void skip_spaces() {
    while (at_ < text_.size() && spaces.find(text_[at_]) != std::string_view::npos) ++at_;
  }
  /// The next character, with all bytes of its UTF-8 sequence.
  std::string found() const {
    if (at_ == text_.size()) return "the end";
    size_t end = at_ + 1;
    while (end < text_.size() && (uint8_t(text_[end]) & 0xC0) == 0x80) ++end;
    return std::string("'").append(text_, at_, end - at_).append("'");
  }
  /// Consumes `symbol` and the spaces after it, if it is next.
  bool take(std::string_view symbol) {
    if (text_.compare(at_, symbol.size(), symbol) != 0) return false;
    at_ += symbol.size();
    skip_spaces();
    return true;
  }
  void close(size_t opened) {
    if (!take(")")) refuse(at_, "wanted ')' for the '(' at byte " + std::to_string(opened) + ", found " + found());
  }

  // ---- grammar, from the lowest to the highest precedence
  Operand comparison() {
    const Nesting nesting(*this);
    skip_spaces();
    Operand left = sum();
    const size_t at = at_;
    if (const auto op = comparing()) left = emit(*op, left, sum(), at);
    const size_t second = at_;
    if (comparing()) refuse(second, "a second comparison; put the first one in parentheses");
    return left;
  }
  std::optional<Op> comparing() {
    if (take("<=")) return Op::at_most;
    if (take(">=")) return Op::at_least;
    if (take("<")) return Op::less;
    if (take(">")) return Op::greater;
    return std::nullopt;
  }
  Operand sum() {
    Operand left = product();
    for (;;) {
      const size_t at = at_;
      if (take("+"))
        left = emit(Op::add, left, product(), at);
      else if (take("-"))
        left = emit(Op::subtract, left, product(), at);
      else
        return left;
    }
  }
  Operand product() {
    Operand left = unary();
    for (;;) {
      const size_t at = at_;
      if (take("*"))
        left = emit(Op::multiply, left, unary(), at);
      else if (take("/"))
        left = emit(Op::divide, left, unary(), at);
      else
        return left;
    }
  }
  Operand unary() {
    const Nesting nesting(*this);
    const size_t at = at_;
    return take("-") ? emit(Op::negate, unary(), at) : power();
  }
  Operand power() {
    const Operand base = primary();
    const size_t at = at_;
    return take("^") ? emit(Op::power, base, unary(), at) : base;
  }
  Operand primary() {
    const size_t at = at_;
    if (take("(")) {
      Operand inner = comparison();
      close(at);
      inner.at = at;
      return inner;
    }
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if ((c >= '0' && c <= '9') || c == '.') return number();
    const std::string name = word();
    if (name.empty())
      refuse(at, "wanted a number, a name or '(', found " + found() + (c == '*' ? "; a power is a ^ b" : ""));
    for (size_t i = 0; i < num_names; ++i)
      if (name == signal_names[i]) return named(Signal(i), at);
    for (const Function& function : functions)
      if (name == function.name) return call(function, at);
    if (const auto reference = named_reference(name)) return named(*reference, at);
    refuse_name(at, name);
  }
  Operand number() {
    const size_t at = at_;
    double number = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (error != std::errc()) refuse(at, "not a number in the range of 64-bit floating point");
    at_ = size_t(end - text_.data());
    skip_spaces();
    return constant(number, at);
  }
  std::string word() {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    size_t end = at_;
    while (end < text_.size() && (letter(text_[end]) || (end > at_ && text_[end] >= '0' && text_[end] <= '9'))) ++end;
    const std::string word = text_.substr(at_, end - at_);
    at_ = end;
    skip_spaces();
    return word;
  }

  // ---- functions
  Operand call(const Function& function, size_t at) {
    const size_t opened = at_;
    if (!take("(")) refuse(at, std::string(function.name) + " is a function: " + function.usage);
    std::vector<Operand> given;
    if (!take(")")) {
      do given.push_back(comparison());
      while (take(","));
      close(opened);
    }
    if (given.size() != function.arguments)
      refuse(at, std::string(function.usage) + " takes " + std::to_string(function.arguments) + ", found " +
                     std::to_string(given.size()) + " arguments");
    const std::string name = function.name;
    if (name == "min" || name == "max") return emit(name == "min" ? Op::min : Op::max, given[0], given[1], at);
    if (name == "exp" || name == "log") return emit(name == "exp" ? Op::exp : Op::log, given[0], at);
    if (name == "top_mass") return top_mass(given[0], at);
    if (name == "signed") return may_be_negative(given[0], at);
    return name == "clamp" ? clamp(given[0], given[1], given[2], at) : quantile(given[0], given[1], at);
  }
  Operand may_be_negative(const Operand& x, size_t at) {
    if (at != text_.find_first_not_of(spaces) || at_ < text_.size())
      refuse(at, "signed(x) says that the weight may be negative, so x must be the whole formula");
    program_.is_signed = true;
    return x;
  }
  Operand top_mass(const Operand& k, size_t at) {
    if (!k.constant()) refuse(k.at, "top_mass's k, the number of the likeliest tokens, must be a constant");
    if (k.number != std::floor(k.number) || k.number < 1 || k.number > max_top_k)
      refuse(k.at, "top_mass's k must be a whole number from 1 to " + std::to_string(max_top_k));
    const auto number = int64_t(k.number);
    if (program_.top_k > 0 && program_.top_k != number)
      refuse(k.at, "found top_mass of " + std::to_string(program_.top_k) + " and of " + std::to_string(number) +
                       " tokens, wanted one number in a formula");
    program_.top_k = number;
    return load(Signal::top_mass, at);
  }
  Operand clamp(const Operand& x, const Operand& smallest, const Operand& largest, size_t at) {
    if (!smallest.constant() || !largest.constant())
      refuse(smallest.constant() ? largest.at : smallest.at,
             "clamp's limits must be constants; min and max take any argument");
    if (smallest.number > largest.number) refuse(smallest.at, "clamp's smallest is larger than its largest");
    if (x.constant()) return constant(std::clamp(x.number, smallest.number, largest.number), at);
    program_.code.push_back({.op = Op::clamp, .number = smallest.number, .number2 = largest.number});
    return {x.kind, 0, at};
  }
  Operand quantile(const Operand& x, const Operand& q, size_t at) {
    if (x.kind != Operand::Kind::of_token) refuse(x.at, "quantile needs an argument that differs from token to token");
    if (!q.constant()) refuse(q.at, "a quantile's q must be a constant");
    if (q.number < 0 || q.number > 1) refuse(q.at, "a quantile's q must be between 0 and 1");
    program_.code.push_back({.op = Op::quantile, .number = q.number});
    program_.has_quantile = true;
    return {Operand::Kind::of_head, 0, at};
  }

  // ---- code
  Operand named(Signal signal, size_t at) {
    if (at_ < text_.size() && text_[at_] == '(') refuse(at_, std::string(signal_names[signal]) + " is not a function");
    return load(signal, at);
  }
  Operand named(const wmtp::ReferenceSignal& reference, size_t at) {
    if (at_ < text_.size() && text_[at_] == '(') refuse(at_, "a reference's loss or entropy is not a function");
    if (reference.name == "reference") return load(ref, at);  // its entropy has a name of its own
    std::vector<wmtp::ReferenceSignal>& all = program_.references;
    const auto same = [&](const auto& one) { return one.name == reference.name && one.signal == reference.signal; };
    const auto known = std::ranges::find_if(all, same);
    program_.code.push_back({.op = Op::load, .signal = num_signals + size_t(known - all.begin())});
    if (known == all.end()) all.push_back(reference);
    return {Operand::Kind::of_token, 0, at};
  }
  Operand constant(double number, size_t at) {
    if (!std::isfinite(number)) refuse(at, "this constant is not finite");
    return {Operand::Kind::constant, number, at};
  }
  Operand load(Signal signal, size_t at) {
    program_.code.push_back({.op = Op::load, .signal = signal});
    program_.reads[signal] = true;
    return {signal == head || signal == progress ? Operand::Kind::of_head : Operand::Kind::of_token, 0, at};
  }
  Operand emit(Op op, const Operand& x, size_t at) {
    if (x.constant())
      return constant(op == Op::negate ? -x.number : op == Op::exp ? std::exp(x.number) : std::log(x.number), at);
    program_.code.push_back({.op = op});
    return {x.kind, 0, at};
  }
  Operand emit(Op op, const Operand& a, const Operand& b, size_t at) {
    if (op == Op::divide && b.constant() && b.number == 0) refuse(b.at, "division by zero");
    if (a.constant() && b.constant()) return constant(folded(op, a.number, b.number), at);
    Instruction instruction{.op = op};
    if (a.constant() || b.constant()) {
      instruction.constant = a.constant() ? Instruction::Constant::left : Instruction::Constant::right;
      instruction.number = a.constant() ? a.number : b.number;
      instruction.number_tensor = at::scalar_tensor(instruction.number, at::kFloat);
    }
    program_.code.push_back(std::move(instruction));
    return {std::max(a.kind, b.kind), 0, a.at};
  }

  /// Limits recursion, so that a formula cannot overflow the stack and end the process.
  struct Nesting {
    explicit Nesting(Compiler& compiler) : depth(compiler.depth_) {
      if (++depth > max_nesting) refuse(compiler.at_, "nested too deeply");
    }
    ~Nesting() { --depth; }
    int& depth;
  };

  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
  Program program_;
};

}  // namespace

Program compile(const std::string& text) { return Compiler(text).compile(); }

}  // namespace formula
