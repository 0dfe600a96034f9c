#include "core/plan/block.hpp"

#include <algorithm>

#include "core/model/chunks.hpp"

namespace wmtp {
namespace {

enum Slots { wq, wk, wv, wo, w1, w2, w3 };  // as block_linears of engine/model/layout.hpp

}  // namespace

PlannedBlock::PlannedBlock(Ledger& ledger, const BlockSizes& sizes, const PlannedUnit& unit)
    : ledger_(ledger),
      s_(sizes),
      unit_(unit),
      ND_(s_.tokens() * s_.dim * s_.element),
      NK_(s_.tokens() * s_.kv_heads * s_.head_dim * s_.element),
      NF_(s_.tokens() * s_.ffn * s_.element) {}

bool PlannedBlock::keeps_input(int slot) const {
  const PlannedSlot& found = unit_.slots[size_t(slot)];
  return found.trains || !found.adapter_params.empty();
}

int64_t PlannedBlock::adapter_input_bytes() const {
  int64_t columns = 0;
  for (const PlannedSlot& slot : unit_.slots)
    for (const auto& [rows, in] : slot.adapter_params)
      if (in != slot.in) columns += in;
  return columns * s_.tokens() * s_.element;
}

/// With an adapter: its update, the base's output and their sum. With a bias: the product and the sum.
Held PlannedBlock::slot_output(int slot) const {
  const PlannedSlot& found = unit_.slots[size_t(slot)];
  const int64_t bytes = s_.tokens() * found.out * s_.element;
  if (!found.adapter_params.empty()) hold(3 * bytes);
  if (s_.qkv_bias && slot <= wv) hold(2 * bytes);
  return hold(bytes);
}

/// In bf16 the product is computed in bf16 before it is added to the fp32 gradient.
void PlannedBlock::weight_gradient(int slot) const {
  const PlannedSlot& found = unit_.slots[size_t(slot)];
  if (found.trains && s_.element != 4) hold(found.in * found.out * s_.element);
}

/// For one thread.
int64_t PlannedBlock::attention_scratch_bytes(bool backward) const {
  return 4 * attention_scratch(s_.positions, s_.head_dim, backward);
}

KeptBlock PlannedBlock::forward() const {
  KeptBlock kept;
  kept.scales = hold(2 * 4 * s_.tokens());
  kept.first_norm = hold(ND_);
  {
    for (const int slot : {wq, wk, wv}) slot_output(slot);
    kept.attention = hold(ND_ + 2 * NK_ + 4 * s_.tokens() * s_.heads);  // queries, keys, values; log-sums
    kept.mixed = hold(ND_);
    hold(attention_scratch_bytes(/*backward=*/false));
    const Held added = slot_output(wo);
    kept.residual = hold(ND_);
  }
  if (!keeps_input(wq) && !keeps_input(wk) && !keeps_input(wv)) kept.first_norm.reset();
  if (!keeps_input(wo)) kept.mixed.reset();
  kept.adapter_inputs = hold(adapter_input_bytes());
  kept.second_norm = hold(ND_);
  for (const int slot : {w1, w3}) slot_output(slot);
  kept.gate_up = hold(2 * NF_);
  kept.product = hold(NF_);
  const Held added = slot_output(w2);
  kept.output = hold(ND_);
  if (!keeps_input(w1) && !keeps_input(w3)) kept.second_norm.reset();
  if (!keeps_input(w2)) kept.product.reset();
  return kept;
}

Held PlannedBlock::forward_without_grad() const {
  const Held first_norm = hold(ND_);
  {
    const Held attention = hold(ND_ + 2 * NK_), mixed = hold(ND_);
    hold(attention_scratch_bytes(/*backward=*/false));
  }
  const Held residual = hold(ND_), second_norm = hold(ND_), feed_forward = hold(3 * NF_), added = slot_output(w2);
  return hold(ND_);
}

Held PlannedBlock::backward(KeptBlock& kept) const {
  weight_gradient(w2);
  Held d_product = hold(NF_);
  kept.product.reset();
  Held d_gate_up = hold(2 * NF_);
  kept.gate_up.reset();
  d_product.reset();
  weight_gradient(w1);
  Held d_second_norm = hold(2 * ND_);  // through w3 and w1, then their sum
  d_gate_up.reset();
  kept.second_norm.reset();
  Held d_residual = hold(ND_);
  d_second_norm.reset();
  kept.residual.reset();
  weight_gradient(wo);
  Held d_mixed = hold(ND_);
  kept.mixed.reset();
  Held d_attention;
  {
    const int64_t parts = parts_of_queries(s_.sequences * s_.kv_heads, s_.positions);
    const int64_t keys_fp32 = 4 * s_.tokens() * s_.kv_heads * s_.head_dim;
    const Held d_queries = hold(ND_), of_parts = hold(2 * parts * keys_fp32);
    hold(attention_scratch_bytes(/*backward=*/true));
    d_attention = hold(ND_ + 2 * NK_);
  }
  kept.attention.reset();
  d_mixed.reset();
  hold(ND_);  // gradient with the rotation undone
  Held d_first_norm = hold(2 * ND_);
  d_attention.reset();
  kept.first_norm.reset();
  Held d_input = hold(ND_);
  kept.adapter_inputs.reset();
  kept.scales.reset();
  return d_input;
}

}  // namespace wmtp
