// Problem i is a function of (seed, i): its shape and most of its numbers are drawn; its first polynomials are element
// i of a permutation of all values, so that two problems of the same shape differ without keeping a record of earlier
// ones. Only chains of negations have fewer values than a file has problems: they are counted, and another shape is
// drawn when all of one length are used up.
#include "data/arithmetic/arithmetic.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "data/arithmetic/derivation.hpp"
#include "data/text/jsonl_writer.hpp"
#include "data/window_order.hpp"

namespace wmtp {

namespace {

constexpr int64_t num_polynomials = 7 * 7 * 7 * 7 * 7;
constexpr size_t most_permuted = 4;  // 7^20 values fit 63 bits
/// Mostly wrong digits, the mistake to learn from: the other kinds change several digits.
constexpr std::array mistake_kinds{Mistake::digit, Mistake::digit,     Mistake::digit, Mistake::digit,
                                   Mistake::order, Mistake::operation, Mistake::skip};

/// Random numbers determined by (seed, problem) and the number of earlier draws.
class Draws {
 public:
  Draws(int64_t seed, int64_t problem) : key_(hash64(name_key("arithmetic", uint64_t(seed)), uint64_t(problem))) {}
  int64_t below(int64_t count) { return int64_t(hash64(key_, next_++) % uint64_t(count)); }

 private:
  uint64_t key_, next_ = 0;
};

char operator_of(const std::string& name) {
  return name == "negate" ? '-' : name == "add" ? '+' : name == "multiply" ? '*' : '@';
}

using Operand = std::unique_ptr<Expression>;

Operand draw_shape(Draws& draws, const std::string& operators, int64_t operations) {
  auto shape = std::make_unique<Expression>();
  if (operations == 0) return shape;
  shape->operation = operators[size_t(draws.below(int64_t(operators.size())))];
  const int64_t left = shape->operation == '-' ? operations - 1 : draws.below(operations);
  shape->left = draw_shape(draws, operators, left);
  if (shape->operation != '-') shape->right = draw_shape(draws, operators, operations - 1 - left);
  return shape;
}

void list_values(Expression& expression, std::vector<Polynomial*>& values) {
  if (expression.operation == 0) return values.push_back(&expression.value);
  list_values(*expression.left, values);
  if (expression.right) list_values(*expression.right, values);
}

void set_value(Polynomial& value, int64_t number) {
  for (int& coefficient : value) {
    coefficient = int(number % polynomial_modulus);
    number /= polynomial_modulus;
  }
}

class Problems {
 public:
  explicit Problems(const ArithmeticConfig& config) : config_(config), negations_(size_t(config.max_operations) + 1) {
    for (const std::string& name : config.operations) operators_ += operator_of(name);
    const int64_t lengths = config.max_operations - config.min_operations + 1;
    if (operators_ == "-" && config.problems > lengths * num_polynomials) {
      throw Error(ExitStatus::usage,
                  "arithmetic: found problems = " + std::to_string(config.problems) + ", wanted at most " +
                      std::to_string(lengths * num_polynomials) +
                      ", since there are no more chains of negations; add another operation or a larger "
                      "max_operations");
    }
  }

  /// Called with 0, 1, 2, ...
  Operand problem(int64_t index, Draws& draws) {
    for (;;) {
      const int64_t lengths = config_.max_operations - config_.min_operations + 1;
      const int64_t operations = config_.min_operations + draws.below(lengths);
      Operand expression = draw_shape(draws, operators_, operations);
      std::vector<Polynomial*> values;
      list_values(*expression, values);
      int64_t place = index;
      if (values.size() == 1) {
        place = negations_[size_t(operations)];
        if (place == num_polynomials) continue;
        ++negations_[size_t(operations)];
      }
      fill(values, place, draws);
      return expression;
    }
  }

 private:
  void fill(const std::vector<Polynomial*>& values, int64_t place, Draws& draws) const {
    const size_t permuted = std::min(values.size(), most_permuted);
    int64_t count = 1;
    for (size_t i = 0; i < permuted; ++i) count *= num_polynomials;
    int64_t number = WindowOrder(config_.seed, count, DataOrder::shuffled).window(place);
    for (size_t i = 0; i < values.size(); ++i) {
      set_value(*values[i], i < permuted ? number % num_polynomials : draws.below(num_polynomials));
      number /= num_polynomials;
    }
  }

  const ArithmeticConfig& config_;
  std::string operators_;
  std::vector<int64_t> negations_;  ///< chains used so far, by number of negations
};

/// A derivation with one mistake and a wrong answer. One always exists: a wrong last digit.
Derivation draw_wrong(const Expression& expression, bool steps, const Derivation& right, Draws& draws) {
  for (;;) {
    Mistake mistake;
    mistake.kind = mistake_kinds[size_t(draws.below(int64_t(mistake_kinds.size())))];
    if (right.places[mistake.kind] == 0) continue;
    mistake.place = draws.below(right.places[mistake.kind]);
    mistake.off_by = 1 + int(draws.below(polynomial_modulus - 1));
    Derivation wrong = derive(expression, steps, &mistake);
    if (wrong.answer != right.answer) return wrong;
  }
}

}  // namespace

void write_arithmetic(const ArithmeticConfig& config, const std::filesystem::path& jsonl) {
  if (config.min_operations > config.max_operations)
    throw Error(ExitStatus::usage, "arithmetic: found min_operations " + std::to_string(config.min_operations) +
                                       ", wanted at most max_operations = " + std::to_string(config.max_operations));
  if (config.answers_right + config.answers_wrong == 0)
    throw Error(ExitStatus::usage,
                "arithmetic: found neither answers_right nor answers_wrong, wanted at least one answer");
  JsonlWriter out(jsonl);
  Problems problems(config);
  WorkProgress progress("generating problems", config.problems);
  for (int64_t index = 0; index < config.problems; ++index, progress.advance(1)) {
    Draws draws(config.seed, index);
    const Operand expression = problems.problem(index, draws);
    OrderedJson record{{"instruction", to_text(*expression)},
                       {"input", ""},
                       {"output", ""},
                       {"task_id", "arithmetic-" + std::to_string(config.seed) + "/" + std::to_string(index)},
                       {"is_correct", true},
                       {"metadata", {{"difficulty", num_operations(*expression)}, {"source", "arithmetic"}}}};
    const auto add = [&](const Derivation& answer, bool correct) {
      record["output"] = answer.text;
      record["is_correct"] = correct;
      out.add(record.dump());
    };
    const Derivation right = derive(*expression, config.steps, nullptr);
    if (config.answers_right > 0) add(right, true);
    std::set<std::string> texts;
    while (int64_t(texts.size()) < config.answers_wrong) {
      const Derivation wrong = draw_wrong(*expression, config.steps, right, draws);
      if (texts.insert(wrong.text).second) add(wrong, false);
    }
  }
  out.publish();
}

}  // namespace wmtp
