// From the text of a formula to a program, in one pass: no tree is kept.
//
//   comparison = sum [("<" | ">" | "<=" | ">=") sum]         1 where it holds, else 0
//   sum        = product {("+" | "-") product}
//   product    = unary {("*" | "/") unary}
//   unary      = "-" unary | power
//   power      = primary ["^" unary]                         binds from the right, and before a sign on its left
//   primary    = number | name | function "(" comparison {"," comparison} ")" | "(" comparison ")"
#pragma once

#include <string>

#include "program.hpp"

namespace formula {

/// BadOption("weight", message, byte) where the text is wrong: no formula, an unknown name (with the nearest ones), a
/// function with another number of arguments, a quantile of what does not differ from token to token or at what is no
/// constant, a constant that is not finite, a division by a constant zero, a weight that is a negative constant.
Program compile(const std::string& text);

}  // namespace formula
