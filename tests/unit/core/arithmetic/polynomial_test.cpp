#include "core/arithmetic/polynomial.hpp"

#include <gtest/gtest.h>

#include "base/hash64.hpp"

namespace wmtp {
namespace {

class Polynomials : public testing::Test {
 protected:
  Polynomial any() {
    Polynomial a;
    for (int& coefficient : a) coefficient = int(hash64(1, next_++) % 7);
    return a;
  }
  /// With X as a factor: composing with it loses nothing.
  Polynomial any_without_constant() {
    Polynomial a = any();
    a[0] = 0;
    return a;
  }
  const Polynomial zero{}, one{1}, x{0, 1};
  uint64_t next_ = 0;
};

TEST_F(Polynomials, AreARing) {
  for (int i = 0; i < 500; ++i) {
    const Polynomial a = any(), b = any(), c = any();
    EXPECT_EQ(add(a, b), add(b, a));
    EXPECT_EQ(add(add(a, b), c), add(a, add(b, c)));
    EXPECT_EQ(add(a, zero), a);
    EXPECT_EQ(add(a, negate(a)), zero);
    EXPECT_EQ(multiply(a, b), multiply(b, a));
    EXPECT_EQ(multiply(multiply(a, b), c), multiply(a, multiply(b, c)));
    EXPECT_EQ(multiply(a, one), a);
    EXPECT_EQ(multiply(a, add(b, c)), add(multiply(a, b), multiply(a, c)));
  }
}

TEST_F(Polynomials, HaveCoefficientsModuloSeven) {
  EXPECT_EQ(negate({0, 1, 2, 3, 6}), (Polynomial{0, 6, 5, 4, 1}));
  EXPECT_EQ(add({6, 5, 4, 3, 0}, {1, 5, 4, 3, 0}), (Polynomial{0, 3, 1, 6, 0}));
  EXPECT_EQ(multiply({6}, {6, 3}), (Polynomial{1, 4}));
}

TEST_F(Polynomials, DropTermsFromTheFifthPowerOn) {
  const Polynomial x2{0, 0, 1}, x3{0, 0, 0, 1}, x4{0, 0, 0, 0, 1};
  EXPECT_EQ(multiply(x, x3), x4);
  EXPECT_EQ(multiply(x2, x3), zero);
  EXPECT_EQ(multiply(x4, x4), zero);
  EXPECT_EQ(compose(x2, x3), zero);
  EXPECT_EQ(compose(x4, x), x4);
}

TEST_F(Polynomials, ComposeAsFunctionsDo) {
  // (1 + X)^2 = 1 + 2 X + X^2; 3 (1 + X)^2 + 1 = 4 + 6 X + 3 X^2.
  EXPECT_EQ(compose({1, 0, 3}, {1, 1}), (Polynomial{4, 6, 3}));
  for (int i = 0; i < 500; ++i) {
    const Polynomial a = any(), b = any(), c = any(), inner = any_without_constant(), deeper = any_without_constant();
    EXPECT_EQ(compose(a, x), a);
    EXPECT_EQ(compose(x, a), a);
    EXPECT_EQ(compose(add(a, b), c), add(compose(a, c), compose(b, c)));
    EXPECT_EQ(compose(multiply(a, b), inner), multiply(compose(a, inner), compose(b, inner)));
    EXPECT_EQ(compose(compose(a, inner), deeper), compose(a, compose(inner, deeper)));
    Polynomial power = one, sum{};
    for (const int coefficient : a) {
      sum = add(sum, multiply({coefficient}, power));
      power = multiply(power, c);
    }
    EXPECT_EQ(compose(a, c), sum);
  }
}

TEST_F(Polynomials, AreWrittenLowestCoefficientFirst) { EXPECT_EQ(to_text(Polynomial{3, 1, 4}), "31400"); }

}  // namespace
}  // namespace wmtp
