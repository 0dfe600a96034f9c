#include "program.hpp"

#include <cmath>

namespace formula {
namespace {

/// A tensor on the stack, and whether this program created it and may overwrite it.
struct Value {
  Tensor tensor;
  bool own = false;
};

Tensor& two_operands(Op op, Tensor& out, const Tensor& a, const Tensor& b) {
  switch (op) {
    case Op::add:
      return at::add_out(out, a, b);
    case Op::subtract:
      return at::sub_out(out, a, b);
    case Op::multiply:
      return at::mul_out(out, a, b);
    case Op::divide:
      return at::div_out(out, a, b);
    case Op::power:
      return at::pow_out(out, a, b);
    case Op::less:
      return at::lt_out(out, a, b);
    case Op::greater:
      return at::gt_out(out, a, b);
    case Op::at_most:
      return at::le_out(out, a, b);
    case Op::at_least:
      return at::ge_out(out, a, b);
    case Op::min:
      return at::minimum_out(out, a, b);
    default:
      return at::maximum_out(out, a, b);
  }
}

Tensor fresh_like(const Tensor& like) { return at::empty(like.sizes(), like.options()); }

/// ATen has special kernels for powers with a constant (squares, roots), selected by the number.
Value with_constant(const Instruction& it, const Value& x) {
  Value out{x.own ? x.tensor : fresh_like(x.tensor), true};
  const bool left = it.constant == Instruction::Constant::left;
  if (it.op == Op::power) {
    if (left)
      at::pow_out(out.tensor, it.number, x.tensor);
    else
      at::pow_out(out.tensor, x.tensor, it.number);
  } else {
    two_operands(it.op, out.tensor, left ? it.number_tensor : x.tensor, left ? x.tensor : it.number_tensor);
  }
  return out;
}

Value of_two(Op op, const Value& a, const Value& b) {
  const bool a_larger = a.tensor.dim() >= b.tensor.dim(), b_larger = b.tensor.dim() >= a.tensor.dim();
  Value out{a.own && a_larger   ? a.tensor
            : b.own && b_larger ? b.tensor
                                : fresh_like(a_larger ? a.tensor : b.tensor),
            true};
  two_operands(op, out.tensor, a.tensor, b.tensor);
  return out;
}

Value of_one(const Instruction& it, const Value& x) {
  Value out{x.own ? x.tensor : fresh_like(x.tensor), true};
  switch (it.op) {
    case Op::negate:
      at::neg_out(out.tensor, x.tensor);
      break;
    case Op::exp:
      at::exp_out(out.tensor, x.tensor);
      break;
    case Op::log:
      at::log_out(out.tensor, x.tensor);
      break;
    default:
      at::clamp_out(out.tensor, x.tensor, it.number, it.number2);
  }
  return out;
}

}  // namespace

Tensor run(const Program& program, const Signals& signals, const Tensor& valid, wmtp::Collectives* collectives) {
  std::vector<Value> stack;
  stack.reserve(program.code.size());
  for (const Instruction& it : program.code) {
    if (it.op == Op::load) {
      stack.push_back({signals[it.signal], false});
    } else if (it.op == Op::quantile) {
      stack.back() = {collectives->quantile(stack.back().tensor, valid, it.number), true};
    } else if (it.op < Op::add) {
      stack.back() = of_one(it, stack.back());
    } else if (it.constant != Instruction::Constant::none) {
      stack.back() = with_constant(it, stack.back());
    } else {
      const Value right = std::move(stack.back());
      stack.pop_back();
      stack.back() = of_two(it.op, stack.back(), right);
    }
  }
  return stack.back().tensor;
}

bool harmless_at_zero(const Program& program) {
  for (const Signal signal : {value, position, head, uniform, progress})
    if (program.reads[signal]) return false;  // not zero there
  if (program.constant || program.has_quantile) return false;
  const Signals zeros(num_tensors(program), at::zeros({1}, at::kFloat));
  const double there = run(program, zeros, {}, nullptr).item<double>();
  return std::isfinite(there) && (program.is_signed || there >= 0);
}

}  // namespace formula
