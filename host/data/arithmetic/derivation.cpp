// Places of mistakes are counted by kind while the derivation is written, so that derivations with and without a
// mistake have the same places before it.
#include "data/arithmetic/derivation.hpp"

namespace wmtp {

namespace {

std::string operand_text(const Expression& operand) {
  const std::string text = to_text(operand);
  return operand.operation == 0 || operand.operation == '-' ? text : "(" + text + ")";
}

int sum(int a, int b) { return (a + b) % polynomial_modulus; }
int product(int a, int b) { return a * b % polynomial_modulus; }

class Writer {
 public:
  Writer(bool steps, const Mistake* mistake) : steps_(steps), mistake_(mistake) {}

  Polynomial value(const Expression& expression) {
    if (expression.operation == 0) return expression.value;
    const Polynomial left = value(*expression.left);
    if (expression.operation == '-') return negated(left);
    const Polynomial right = value(*expression.right);
    if (expression.operation == '+') return added(left, right);
    return expression.operation == '*' ? multiplied(left, right) : composed(left, right);
  }

  Derivation finish(const Polynomial& answer) {
    text_ += "#" + to_text(answer);
    return {std::move(text_), answer, places_};
  }

 private:
  bool is_mistake(Mistake::Kind kind) {
    const int64_t place = places_[kind]++;
    return mistake_ && mistake_->kind == kind && mistake_->place == place;
  }
  int digit(int right) { return is_mistake(Mistake::digit) ? sum(right, mistake_->off_by) : right; }
  void write(const std::string& text) {
    if (steps_) text_ += text;
  }
  void write(int digit) { write(std::string(1, char('0' + digit))); }

  Polynomial negated(const Polynomial& a) {
    const bool skipped = is_mistake(Mistake::skip);
    Polynomial result;
    for (size_t k = 0; k < polynomial_terms; ++k)
      result[k] = digit(skipped ? a[k] : (polynomial_modulus - a[k]) % polynomial_modulus);
    write("-" + to_text(a) + "=" + to_text(result) + "\n");
    return result;
  }

  Polynomial added(const Polynomial& a, const Polynomial& b) {
    const bool skipped = is_mistake(Mistake::skip), multiplies = is_mistake(Mistake::operation);
    Polynomial result;
    for (size_t k = 0; k < polynomial_terms; ++k)
      result[k] = digit(skipped ? a[k] : multiplies ? product(a[k], b[k]) : sum(a[k], b[k]));
    write(to_text(a) + "+" + to_text(b) + "=" + to_text(result) + "\n");
    return result;
  }

  Polynomial multiplied(const Polynomial& a, const Polynomial& b) {
    write(to_text(a) + "*" + to_text(b));
    Polynomial result;
    for (size_t k = 0; k < polynomial_terms; ++k) {
      write(k == 0 ? "=" : ",");
      result[k] = coefficient(a, b, k);
    }
    write("=" + to_text(result) + "\n");
    return result;
  }

  int coefficient(const Polynomial& a, const Polynomial& b, size_t k) {
    const bool adds = is_mistake(Mistake::operation), multiplies = k > 0 && is_mistake(Mistake::operation);
    int so_far = 0;
    for (size_t i = 0; i <= k; ++i) {
      const int x = a[i], y = b[k - i];
      int term = adds ? sum(x, y) : product(x, y);
      // No mistake in 0 times y, so that right and wrong products of x are 0 equally often.
      if (x != 0) term = digit(term);
      write(x), write(y), write(term);
      if (i == 0) {
        so_far = term;
        continue;
      }
      if (!is_mistake(Mistake::skip)) so_far = digit(multiplies ? product(so_far, term) : sum(so_far, term));
      write(so_far);
    }
    return so_far;
  }

  // Horner's rule: a_0 + b (a_1 + b (a_2 + b (a_3 + b a_4))).
  Polynomial composed(Polynomial a, Polynomial b) {
    write(to_text(a) + "@" + to_text(b) + "\n");
    if (is_mistake(Mistake::order)) std::swap(a, b);
    Polynomial result{a.back()};
    for (size_t k = polynomial_terms - 1; k-- > 0;) result = added(multiplied(result, b), {a[k]});
    return result;
  }

  bool steps_;
  const Mistake* mistake_;
  std::string text_;
  std::array<int64_t, Mistake::num_kinds> places_{};
};

}  // namespace

std::string to_text(const Polynomial& a) {
  std::string text;
  for (const int coefficient : a) text += char('0' + coefficient);
  return text;
}

std::string to_text(const Expression& expression) {
  if (expression.operation == 0) return to_text(expression.value);
  if (expression.operation == '-') return "-" + operand_text(*expression.left);
  return operand_text(*expression.left) + expression.operation + operand_text(*expression.right);
}

int64_t num_operations(const Expression& expression) {
  if (expression.operation == 0) return 0;
  return 1 + num_operations(*expression.left) + (expression.right ? num_operations(*expression.right) : 0);
}

Derivation derive(const Expression& expression, bool steps, const Mistake* mistake) {
  Writer writer(steps, mistake);
  return writer.finish(writer.value(expression));
}

}  // namespace wmtp
