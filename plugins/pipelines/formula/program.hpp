// Program: a compiled formula: a flat list of stack operations, one ATen call each.
//
// Constants are folded at compile time; the remaining ones are stored in the operations as tensors. An operation may
// overwrite intermediate results, but never the input signals. No tensor value is read on the host.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>
#include <wmtp/step.hpp>

namespace formula {

using at::Tensor;

/// What a formula can read: the names in the order of `signal_names`, then what a function of its own reads.
enum Signal : size_t {
  ce,
  ref,
  excess,
  entropy,
  rank,
  margin,
  agreement,
  previous_ce,
  alignment,
  reference_entropy,
  data_weight,
  bytes,
  correct,
  pass_rate,
  value,
  position,
  head,
  uniform,
  progress,
  num_names,
  top_mass = num_names,
  num_signals  ///< the first of Program::references
};
inline constexpr std::array<const char*, num_names> signal_names = {
    "ce",          "ref",       "excess",      "entropy",   "rank",
    "margin",      "agreement", "previous_ce", "alignment", "reference_entropy",
    "data_weight", "bytes",     "correct",     "pass_rate", "value",
    "position",    "head",      "uniform",     "progress"};
/// Those that the host's steps have, and what they are there.
inline constexpr std::array<std::pair<Signal, wmtp::Signal>, 14> host_signals = {
    {{ce, wmtp::Signal::policy_loss},
     {entropy, wmtp::Signal::policy_entropy},
     {rank, wmtp::Signal::policy_rank},
     {margin, wmtp::Signal::policy_margin},
     {agreement, wmtp::Signal::policy_agreement},
     {previous_ce, wmtp::Signal::policy_previous_loss},
     {alignment, wmtp::Signal::policy_alignment},
     {top_mass, wmtp::Signal::policy_top_mass},
     {ref, wmtp::Signal::reference_loss},
     {reference_entropy, wmtp::Signal::reference_entropy},
     {data_weight, wmtp::Signal::data_weight},
     {bytes, wmtp::Signal::data_bytes},
     {correct, wmtp::Signal::data_correct},
     {pass_rate, wmtp::Signal::data_pass_rate}}};

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

/// An operation. One of two operands can be a constant, which is then not on the stack.
struct Instruction {
  enum class Constant { none, left, right };
  Op op = Op::load;
  size_t signal = ce;                  ///< load
  Constant constant = Constant::none;  ///< two operands
  double number = 0;                   ///< the constant; clamp: smallest; quantile: q
  double number2 = 0;                  ///< clamp: largest
  Tensor number_tensor = {};           ///< the constant as an fp32 scalar tensor
};

struct Program {
  std::optional<double> constant;  ///< the value of a formula without signals; `code` is then empty
  std::vector<Instruction> code;
  std::array<bool, num_signals> reads = {};
  std::vector<wmtp::ReferenceSignal> references;  ///< NAME_loss and NAME_entropy, in the order of their first mention
  bool has_quantile = false;
  bool is_signed = false;  ///< its value may be negative
  int64_t top_k = 0;       ///< of top_mass
};

/// The signals of one head's tokens, then those of `references`: fp32, of one shape except `head`, which is a scalar;
/// undefined if not read.
using Signals = std::vector<Tensor>;
inline size_t num_tensors(const Program& program) { return num_signals + program.references.size(); }

/// The formula's value: shaped like the signals, or a scalar if nothing in it differs from token to token. Quantiles
/// are over `valid` on all ranks; a program without quantiles uses neither `valid` nor `collectives`. The program must
/// not be constant.
Tensor run(const Program& program, const Signals& signals, const Tensor& valid, wmtp::Collectives* collectives);

/// Whether the formula is finite and, unless it is signed, not negative if all signals are zero, as they are for
/// invalid tokens. [reads a number on the host: before start]
bool harmless_at_zero(const Program& program);

}  // namespace formula
