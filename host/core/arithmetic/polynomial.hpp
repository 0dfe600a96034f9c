// Arithmetic in F_7[X]/(X^5): polynomials with coefficients modulo 7, of which terms from X^5 on are dropped. The
// numbers that the arithmetic task computes with (Gloeckle et al., arXiv 2404.19737, section 4.2). Knows no LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace wmtp {

constexpr int polynomial_modulus = 7;
constexpr size_t polynomial_terms = 5;

/// Coefficients 0..6, that of X^0 first.
using Polynomial = std::array<int, polynomial_terms>;

Polynomial negate(const Polynomial& a);
Polynomial add(const Polynomial& a, const Polynomial& b);
/// The product without its terms from X^5 on.
Polynomial multiply(const Polynomial& a, const Polynomial& b);
/// a(b(X)) without its terms from X^5 on: of the one representative of `a` with a degree below 5, since a constant term
/// of b would bring back what is dropped of another.
Polynomial compose(const Polynomial& a, const Polynomial& b);

/// Five digits, that of X^0 first: 3 + X + 4 X^2 is "31400".
std::string to_text(const Polynomial& a);

}  // namespace wmtp
