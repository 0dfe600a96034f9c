// Program: a formula after it was compiled: a flat list of operations on a stack, one call of ATen each.
//
// Constants are folded before; what is left of them stands in the operations, ready as tensors. A result of this
// program is overwritten by the operation that takes it, what was given from outside never is. Nothing is read on the
// host.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <optional>
#include <vector>
#include <wmtp/step.hpp>

namespace formula {

using at::Tensor;

/// What a formula may read, in the order of `signal_names`.
enum Signal : size_t { ce, ref, excess, entropy, value, position, head, uniform, num_signals };
inline constexpr std::array<const char*, num_signals> signal_names = {"ce",    "ref",      "excess", "entropy",
                                                                      "value", "position", "head",   "uniform"};

enum class Op {
  load,  ///< a signal
  negate,
  exp,
  log,
  clamp,
  quantile,  // one operand
  add,
  subtract,
  multiply,
  divide,
  power,
  less,
  greater,
  at_most,
  at_least,
  min,
  max,  // two
};

/// An operation. Of two operands one may be a constant, and is not on the stack then.
struct Instruction {
  enum class Constant { none, left, right };
  Op op = Op::load;
  Signal signal = ce;                  ///< load
  Constant constant = Constant::none;  ///< two operands
  double number = 0;                   ///< the constant; clamp: smallest; quantile: q
  double number2 = 0;                  ///< clamp: largest
  Tensor number_tensor = {};           ///< the constant as a scalar tensor of fp32
};

struct Program {
  std::optional<double> constant;  ///< the whole formula, where nothing is read; `code` is empty then
  std::vector<Instruction> code;
  std::array<bool, num_signals> reads = {};
  bool has_quantile = false;
};

/// What one head's tokens are, all of one shape except `head`, which is a scalar: fp32; undefined where not read.
using Signals = std::array<Tensor, num_signals>;

/// The formula's value: shaped like the signals, or a scalar where nothing in it differs from token to token. Quantiles
/// are over `valid` of all ranks; without one in the program neither `valid` nor `across` is used. The program must not
/// be constant.
Tensor run(const Program& program, const Signals& signals, const Tensor& valid, wmtp::Across* across);

/// Whether the formula is finite and not negative where all signals are zero, as they are of tokens that are not valid.
/// [reads a number on the host: before start]
bool harmless_at_zero(const Program& program);

}  // namespace formula
