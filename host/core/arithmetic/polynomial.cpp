// See polynomial.hpp.
#include "core/arithmetic/polynomial.hpp"

namespace wmtp {

Polynomial negate(const Polynomial& a) {
  Polynomial result;
  for (size_t k = 0; k < polynomial_terms; ++k) result[k] = (polynomial_modulus - a[k]) % polynomial_modulus;
  return result;
}

Polynomial add(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  for (size_t k = 0; k < polynomial_terms; ++k) result[k] = (a[k] + b[k]) % polynomial_modulus;
  return result;
}

Polynomial multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial result{};
  for (size_t i = 0; i < polynomial_terms; ++i)
    for (size_t j = 0; i + j < polynomial_terms; ++j)
      result[i + j] = (result[i + j] + a[i] * b[j]) % polynomial_modulus;
  return result;
}

Polynomial compose(const Polynomial& a, const Polynomial& b) {
  Polynomial result{};
  for (size_t k = polynomial_terms; k-- > 0;) result = add(multiply(result, b), {a[k]});
  return result;
}

std::string to_text(const Polynomial& a) {
  std::string text;
  for (const int coefficient : a) text += static_cast<char>('0' + coefficient);
  return text;
}

}  // namespace wmtp
