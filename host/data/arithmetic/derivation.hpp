// An expression over F_7[X]/(X^5) and its derivation: its evaluation as text, right or with one mistake.
//
// One line per operation, in order of computation (left before right), with its operands:
//
//   -31400=46300
//   31400+20010=51410
//   31400*20010=326,3001222,...=62131
//   31400@20010                      then the lines of Horner's rule; the last one contains the result
//   #62105                           the answer, after its marker
//
// A digit of a sum follows from the digits six and twelve places earlier. A product is written out by coefficients, c_k
// = a_0 b_k + a_1 b_(k-1) + ...: for each term both factors, their product and, from the second term on, the running
// sum. Each computed digit therefore follows from two nearby digits by one of two tables of 49 entries, and all other
// digits are copies. "31400*20010=62105" alone would require sums of five products at once.
//
// The length depends only on the operations (12, 17, 77 and 387 characters for - + * @, plus a newline each), so it
// does not reveal whether a derivation is right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace wmtp {

constexpr int polynomial_modulus = 7;
constexpr size_t polynomial_terms = 5;

/// Coefficients 0..6, from X^0 upwards; terms from X^5 on are dropped (Gloeckle et al., arXiv 2404.19737, section 4.2).
using Polynomial = std::array<int, polynomial_terms>;

/// Five digits, from X^0 upwards: 3 + X + 4 X^2 is "31400".
std::string to_text(const Polynomial& a);

/// A polynomial, or an operation on one or two expressions. `-` is unary; its operand is `left`.
struct Expression {
  char operation = 0;  ///< '-', '+', '*', '@' (compose); 0: a polynomial
  Polynomial value{};
  std::unique_ptr<Expression> left, right;
};

/// "(31400*20010)+-11111": parentheses around each operand that is an operation other than `-`, which binds tightest.
std::string to_text(const Expression& expression);

int64_t num_operations(const Expression& expression);

/// One mistake; all later steps compute with its result.
struct Mistake {
  enum Kind {
    digit,      ///< one coefficient is off by 1..6
    operation,  ///< coefficients are multiplied instead of added, or added instead of multiplied
    order,      ///< the operands of a composition are swapped
    skip        ///< a step is skipped: its (left) operand, or the sum so far, is used as its result
  };
  static constexpr size_t num_kinds = 4;
  Kind kind = digit;
  int64_t place = 0;  ///< zero-based index among the places where this kind of mistake is possible
  int off_by = 1;     ///< digit: 1..6
};

struct Derivation {
  std::string text;  ///< including the answer's line, without a final newline
  Polynomial answer{};
  std::array<int64_t, Mistake::num_kinds> places{};  ///< number of places for each kind of mistake
};

/// If `steps` is false, the text is only the answer's line; the derivation is the same. `mistake` may be null.
Derivation derive(const Expression& expression, bool steps, const Mistake* mistake);

}  // namespace wmtp
