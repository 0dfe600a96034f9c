// See derivation.hpp. Each place where a mistake can be made asks for it by kind and counts the question, so that the
// places of a derivation without mistakes are those of every other one up to its mistake.
#include "core/arithmetic/derivation.hpp"

namespace wmtp {

namespace {

std::string operand_text(const Expression& operand) {
  const std::string text = to_text(operand);
  return operand.operation == 0 || operand.operation == '-' ? text : "(" + text + ")";
}

int sum(int a, int b) { return (a + b) % polynomial_modulus; }
int product(int a, int b) { return a * b % polynomial_modulus; }

class Scribe {
 public:
  Scribe(bool steps, const Mistake* mistake) : steps_(steps), mistake_(mistake) {}

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
  bool made(Mistake::Kind kind) {
    const int64_t place = places_[kind]++;
    return mistake_ && mistake_->kind == kind && mistake_->place == place;
  }
  int digit(int right) { return made(Mistake::digit) ? sum(right, mistake_->off_by) : right; }
  void write(const std::string& text) {
    if (steps_) text_ += text;
  }
  void write(int digit) { write(std::string(1, static_cast<char>('0' + digit))); }

  Polynomial negated(const Polynomial& a) {
    Polynomial result = made(Mistake::skip) ? a : negate(a);
    for (int& coefficient : result) coefficient = digit(coefficient);
    write("-" + to_text(a) + "=" + to_text(result) + "\n");
    return result;
  }

  Polynomial added(const Polynomial& a, const Polynomial& b) {
    const bool skipped = made(Mistake::skip), multiplies = made(Mistake::operation);
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
    const bool adds = made(Mistake::operation), multiplies = k > 0 && made(Mistake::operation);
    int so_far = 0;
    for (size_t i = 0; i <= k; ++i) {
      const int x = a[i], y = b[k - i];
      int term = adds ? sum(x, y) : product(x, y);
      // Nobody is wrong about 0 times y; and a right product of x is then as often 0 as a wrong one.
      if (x != 0) term = digit(term);
      write(x), write(y), write(term);
      if (i == 0) {
        so_far = term;
        continue;
      }
      if (!made(Mistake::skip)) so_far = digit(multiplies ? product(so_far, term) : sum(so_far, term));
      write(so_far);
    }
    return so_far;
  }

  // Horner's rule: a_0 + b (a_1 + b (a_2 + b (a_3 + b a_4))).
  Polynomial composed(Polynomial a, Polynomial b) {
    write(to_text(a) + "@" + to_text(b) + "\n");
    if (made(Mistake::order)) std::swap(a, b);
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
  Scribe scribe(steps, mistake);
  return scribe.finish(scribe.value(expression));
}

}  // namespace wmtp
