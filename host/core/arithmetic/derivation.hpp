// An expression over F_7[X]/(X^5), and the way to its value written out, right or with one mistake.
//
// One line for each operation, in the order in which they are done (left before right), each restating its operands:
//
//   -31400=46300
//   31400+20010=51410
//   31400*20010=326,3001222,...=62131
//   31400@20010                      then the lines of Horner's rule, the last of which has the result
//   #62105                           the answer, after a mark of its own
//
// A digit of a sum is checked by the two digits six and twelve places before it. A product is written out by its
// coefficients, c_k = a_0 b_k + a_1 b_(k-1) + ...: for each term both factors, their product and, from the second term
// on, the sum so far. So every digit that is computed follows from two others near it, by one of two tables of 49
// entries, and all the rest are copies. The alternative, "31400*20010=62105" alone, asks a reader for sums of five
// products at once.
//
// The length follows from the expression's operations alone (12, 17, 77 and 387 characters a line or lines for - + * @,
// and one for each end of a line), so that it says nothing about right and wrong. Knows no LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "core/arithmetic/polynomial.hpp"

namespace wmtp {

/// A polynomial, or an operation on one or two expressions. `-` takes its operand on the left.
struct Expression {
  char operation = 0;  ///< '-', '+', '*', '@' (compose); 0: a polynomial
  Polynomial value{};
  std::unique_ptr<Expression> left, right;
};

/// "(31400*20010)+-11111": parentheses around each operation that is an operand, but for `-`, which binds tightest.
std::string to_text(const Expression& expression);

int64_t num_operations(const Expression& expression);

/// One mistake, whose consequences are carried on to the end.
struct Mistake {
  enum Kind {
    digit,      ///< one coefficient is off by 1..6
    operation,  ///< coefficients are multiplied where they should be added, or the other way round
    order,      ///< the operands of a composition change places
    skip        ///< a step is left out: its (left) operand, or the sum so far, stands for its result
  };
  static constexpr size_t num_kinds = 4;
  Kind kind = digit;
  int64_t place = 0;  ///< the mistake is made where it can be made for the `place`-th time, from 0
  int off_by = 1;     ///< digit: 1..6
};

struct Derivation {
  std::string text;  ///< with the answer's line, without an end of line
  Polynomial answer{};
  std::array<int64_t, Mistake::num_kinds> places{};  ///< how often each kind of mistake could be made
};

/// With `steps` false, the text is the answer's line alone; the derivation is the same. `mistake` may be null.
Derivation derive(const Expression& expression, bool steps, const Mistake* mistake);

}  // namespace wmtp
