// Compiles the text of a formula to a program in one pass, without a syntax tree.
//
//   comparison = sum [("<" | ">" | "<=" | ">=") sum]         1 where it is true, else 0
//   sum        = product {("+" | "-") product}
//   product    = unary {("*" | "/") unary}
//   unary      = "-" unary | power
//   power      = primary ["^" unary]                         right-associative; binds tighter than a sign on its left
//   primary    = number | name | function "(" comparison {"," comparison} ")" | "(" comparison ")"
#pragma once

#include <string>

#include "program.hpp"

namespace formula {

/// Throws BadOption("weight", message, byte) if the text is wrong: a syntax error, an unknown name (with the nearest
/// one), a function with a wrong number of arguments, a quantile whose argument does not differ from token to token or
/// whose q is not a constant, a top_mass whose k is not one whole number, a constant that is not finite, a division by
/// a constant zero, a negative constant weight, or signed() of a part of the formula.
Program compile(const std::string& text);

}  // namespace formula
